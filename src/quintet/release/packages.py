"""The Python package of a release: wheel, source, and what the wheel needs. Called by `__main__`.

Both are built by the backend that pyproject.toml names, in a process of its own without a network.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from quintet import __version__
from quintet.local.errors import LocalError
from quintet.release import sbom

# The earliest day that a wheel can hold: it is a ZIP file.
_EPOCH = "315532800"
_BUILD = (
    "import sys; from hatchling import build; build.build_wheel(sys.argv[1]); build.build_sdist(sys.argv[1])"
)


def write_packages(root: Path, requirements: str, file: Callable[[Path, bytes | Path], None]) -> None:
    """Build both and give each file to `file`, with the list of what the wheel needs."""
    with tempfile.TemporaryDirectory() as product:
        _build(root, Path(product))
        for built in sorted(Path(product).iterdir()):
            file(Path("python") / built.name, built.read_bytes())
    subject = sbom.SbomSubject("quintet", __version__, "application", f"pkg:pypi/quintet@{__version__}")
    text = sbom.render_document(subject, sbom.python_packages(requirements))
    file(Path("sbom/python.cdx.json"), text.encode())


def _build(root: Path, product: Path) -> None:
    settings = os.environ | {"SOURCE_DATE_EPOCH": _EPOCH}
    command = [sys.executable, "-P", "-c", _BUILD, str(product)]
    done = subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise LocalError(f"the Python package could not be built: {last}", "run `make setup`, then try again")
