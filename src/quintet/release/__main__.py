"""Writes a release below `dist`: `python -m quintet.release VERSION`, or `make release`.

The same source on a machine with the same Debian packages gives the same bytes.
"""

import argparse
import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from quintet import __version__
from quintet.components import COMPONENTS
from quintet.local.errors import LocalError
from quintet.manifests.olm import SCORECARD, Release
from quintet.manifests.release import release
from quintet.release import images, packages

SUMS = "SHA256SUMS"
PARTS = ("manifests", "python", "images")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the release; return the exit code."""
    options = _options(arguments)
    if options.version != __version__:
        sys.stderr.write(
            f"the version of the source is {__version__}, not {options.version}\n"
            "next step: change it in src/quintet/__init__.py, run `make generate`, commit, and try again\n"
        )
        return 1
    try:
        _write(options)
    except LocalError as error:
        sys.stderr.write(f"{error.message}\nnext step: {error.next_step}\n")
        return 1
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\nnext step: correct --catalog or --replaces and try again\n")
        return 1
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m quintet.release")
    parser.add_argument("version", help="the version; must be that of src/quintet/__init__.py")
    parser.add_argument("--replaces", default="", help="the previous version")
    parser.add_argument("--catalog", type=Path, help="the catalog of the previous version, to be extended")
    parser.add_argument("--output", type=Path, default=Path("dist"))
    parser.add_argument("--root", type=Path, default=Path(), help="the root of the repository")
    parser.add_argument("--scorecard-image", default="", help="reference of the scorecard-test image")
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="write only this part; can be repeated"
    )
    return parser.parse_args(arguments)


def _write(options: argparse.Namespace) -> None:
    parts = options.only or [part for part in PARTS if part != "images" or _can_build()]
    output: Path = options.output
    earlier = options.catalog.read_text(encoding="utf-8") if options.catalog else ""
    _clear(output)
    written: list[Path] = []

    def add_file(path: Path, content: bytes | Path) -> None:
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, target)
        else:
            target.write_bytes(content)
        written.append(path)
        sys.stdout.write(f"wrote {target}\n")

    requirements = (options.root / "requirements/runtime.txt").read_text(encoding="utf-8")
    if "manifests" in parts:
        release_options = Release(replaces=options.replaces, scorecard=options.scorecard_image or SCORECARD)
        for path, content in release(tuple(COMPONENTS.values()), release_options, earlier).items():
            add_file(path, content)
    if "python" in parts:
        packages.write_packages(options.root, requirements, add_file)
    if "images" in parts:
        images.write_images(requirements, add_file, _progress)
    add_file(Path(SUMS), _sums(output, written))


def _can_build() -> bool:
    """Return whether images can be built here; report the reason if not."""
    reason = images.reason_not_buildable()
    if reason:
        sys.stderr.write(f"skipped images, their SBOMs and images.json: {reason}\n")
    return not reason


def _clear(output: Path) -> None:
    """Remove the files of an earlier release, so that the checksums cover every file."""
    sums = output / SUMS
    if sums.is_file():
        for line in sums.read_text(encoding="utf-8").splitlines():
            listed = output / line.partition("  ")[2]
            if not listed.resolve().is_relative_to(output.resolve()):
                raise LocalError(
                    f"{sums} lists {listed}, which is outside {output}", f"remove {sums} and try again"
                )
            listed.unlink(missing_ok=True)
        sums.unlink()


def _sums(output: Path, written: Sequence[Path]) -> bytes:
    lines = []
    for path in sorted(written):
        with (output / path).open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {path.as_posix()}\n")
    return "".join(lines).encode()


def _progress(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
