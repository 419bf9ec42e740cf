"""All generated files, and how they differ from those that are there.

Called by `__main__`. Everything is made in memory first, so checking and writing cannot disagree.
"""

from collections.abc import Iterable
from pathlib import Path

from quintet.apis.resources import CustomResource
from quintet.manifests.crd import MOST_BYTES, definition
from quintet.manifests.text import HEADER, as_yaml

Files = dict[Path, str]
"""Path below the root of the repository → content."""

CRD_FOLDER = Path("config/crd")
FOLDERS = (CRD_FOLDER,)
"""Folders in which a file with our header and without a source is a left-over."""


def generate(declared: Iterable[CustomResource]) -> Files:
    """What the files should be."""
    return {CRD_FOLDER / f"{each.resource.qualified}.yaml": _definition_file(each) for each in declared}


def differences(root: Path, files: Files) -> list[Path]:
    """The files that are missing, differ, or should not be there any more."""
    changed = [path for path, content in files.items() if _read(root / path) != content]
    return sorted([*changed, *_left_over(root, files)])


def write(root: Path, files: Files) -> list[Path]:
    """Make the files what they should be; returns those that were not."""
    changed = differences(root, files)
    for path in changed:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path], encoding="utf-8")
        else:
            (root / path).unlink()
    return changed


def _definition_file(declared: CustomResource) -> str:
    content = as_yaml(definition(declared))
    size = len(content.encode())
    if size >= MOST_BYTES:
        name = declared.resource.qualified
        raise ValueError(f"the definition of {name} has {size} bytes and must have less than {MOST_BYTES}")
    return content


def _left_over(root: Path, files: Files) -> list[Path]:
    found = [path.relative_to(root) for folder in FOLDERS for path in (root / folder).glob("*.yaml")]
    return [path for path in found if path not in files and (_read(root / path) or "").startswith(HEADER)]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
