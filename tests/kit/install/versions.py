"""The next version of the product: a copy of the source with another version and one new status field.

    after = next_version()
    after.load(cluster)                      # its image, on the node
    after.command("upgrade", "--kubeconfig", ...)
    cluster.kubectl("apply", "-k", str(after.root / "config/operator"))

The copy's own code generates its files in separate processes. The copy is kept in the user's cache under a hash of the
source, and its image with the other images.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.node_containerd import NodeContainerd
from quintet import __version__
from quintet.local.build.programs import content_hash
from quintet.local.cluster import Cluster
from quintet.local.paths import cache_directory, hold_lock

ROOT = Path(__file__).parents[3]
NEXT = "0.2.0"
NEW_FIELD = "servedBy"
"""Of the status of a JsonServer: in the definition of the next version, and not in that of this one."""
_PARTS = ("src", "images", "config", "charts", "bundle", "catalog", "docs", "examples", "requirements")
_FILES = ("pyproject.toml", "README.md", "LICENSE", "Makefile")
_LEFT_OUT = ("__pycache__", "share", "node_modules", "packages", "programs")
_KEPT = 3
_EDITS = (
    ("src/quintet/__init__.py", f'__version__ = "{__version__}"', f'__version__ = "{NEXT}"'),
    (
        "src/quintet/apis/jsonserver/types.py",
        '    config_hash: Annotated[str, Meta(description="Names the data',
        '    served_by: Annotated[str, Meta(description="Who serves.", max_length=64)] = ""\n'
        '    config_hash: Annotated[str, Meta(description="Names the data',
    ),
)
_IMAGE = (
    "import sys; from quintet.local.images import build, catalog; "
    "image = next(each for each in catalog.IMAGES if each.reference == catalog.QUINTET); "
    "print(build.build_archive(image, lambda line: print(line, file=sys.stderr)))"
)
_COMMAND = "from quintet.cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of the product, as source."""

    version: str
    root: Path
    dist: Path
    """The files of its release."""

    @property
    def image(self) -> str:
        """Return the image of its pods."""
        return f"quintet.local/quintet:{self.version}"

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run `quintet` of this version."""
        return self._python("-c", _COMMAND, *arguments)

    def archive(self) -> Path:
        """Return its image archive, built if it is not cached."""
        return Path(self._checked("-c", _IMAGE).strip())

    def load(self, cluster: Cluster) -> None:
        """Load its image onto the node."""
        NodeContainerd(cluster).ctr("images", "import", "--no-unpack", str(self.archive()))

    def make(self) -> None:
        """Write its generated files and its release."""
        self._checked("-m", "quintet.manifests")
        before = ("--replaces", __version__, "--catalog", str(ROOT / "catalog/quintet/catalog.yaml"))
        self._checked("-m", "quintet.release", self.version, *before, "--only", "manifests")

    def _checked(self, *arguments: str) -> str:
        answer = self._python(*arguments)
        assert answer.returncode == 0, f"{' '.join(arguments)}: {answer.stdout}{answer.stderr}"
        return answer.stdout

    def _python(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", *arguments],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root / "src")},
            capture_output=True,
            text=True,
        )


def this_version(dist: Path) -> Version:
    """Return the source under test with a folder for its release."""
    return Version(__version__, ROOT, dist)


def next_version() -> Version:
    """Return the version after the source under test."""
    hashes = [content_hash(ROOT / part, without=_LEFT_OUT) for part in _PARTS]
    key = content_hash(ROOT / "requirements", *hashes, *map(str, _EDITS))
    kept = cache_directory() / "releases" / f"{NEXT}-{key}"
    with hold_lock(kept.with_name(f"{kept.name}.lock")):
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=kept.parent, suffix=".unfinished") as unfinished:
                copy = Path(unfinished) / "copy"
                _copy(copy)
                Version(NEXT, copy, copy / "dist").make()
                copy.rename(kept)
        os.utime(kept)
    _forget(kept.parent)
    return Version(NEXT, kept, kept / "dist")


def _copy(target: Path) -> None:
    for part in _PARTS:
        shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for name in _FILES:
        shutil.copy(ROOT / name, target / name)
    for name, old, new in _EDITS:
        text = (target / name).read_text()
        assert text.count(old) == 1, f"{name} has changed: it no longer says {old!r} once"
        (target / name).write_text(text.replace(old, new))


def _forget(folder: Path) -> None:
    """Delete copies that were not used recently."""
    found = sorted(folder.glob(f"{NEXT}-*[0-9a-f]"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[_KEPT:]:
        shutil.rmtree(path, ignore_errors=True)
