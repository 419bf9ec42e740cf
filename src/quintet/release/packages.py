"""The Python package of a release: wheel, source archive and SBOM.

The build backend of pyproject.toml runs in its own process and needs no network.
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

# The earliest timestamp of a ZIP file, and so of a wheel.
_EPOCH = "315532800"
_BUILD = (
    "import sys; from hatchling import build; build.build_wheel(sys.argv[1]); build.build_sdist(sys.argv[1])"
)


def write_packages(root: Path, requirements: str, add_file: Callable[[Path, bytes | Path], None]) -> None:
    """Build wheel and source archive; pass them and the SBOM of the wheel to `add_file`."""
    with tempfile.TemporaryDirectory() as product:
        _build(root, Path(product))
        for built in sorted(Path(product).iterdir()):
            add_file(Path("python") / built.name, built.read_bytes())
    subject = sbom.SbomSubject("quintet", __version__, "application", f"pkg:pypi/quintet@{__version__}")
    text = sbom.render_document(subject, sbom.python_packages(requirements))
    add_file(Path("sbom/python.cdx.json"), text.encode())


def _build(root: Path, product: Path) -> None:
    settings = os.environ | {"SOURCE_DATE_EPOCH": _EPOCH}
    command = [sys.executable, "-P", "-c", _BUILD, str(product)]
    result = subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no error message"])[-1]
        raise LocalError(f"the Python package could not be built: {last}", "run `make setup`, then try again")
