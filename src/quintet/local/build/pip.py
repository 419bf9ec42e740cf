"""Finds a pip to install packages into folders with: environments that uv makes have none.

Called by `toolchain` and `staging`.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from pathlib import Path


def find_pip(place: Path) -> list[str]:
    """Return the command that runs pip: that of this environment, or one in a new environment in `place`."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    environment = place / "pip"
    ways = [[sys.executable, "-m", "venv", str(environment)]]
    if uv := shutil.which("uv"):
        ways.append(
            [uv, "venv", "--quiet", "--clear", "--seed", f"--python={sys.executable}", str(environment)]
        )
    for command in ways:
        if subprocess.run(command, capture_output=True).returncode == 0:
            return [str(environment / "bin/python"), "-m", "pip"]
    raise LocalError(
        f"there is no pip for {sys.executable}, and none could be made",
        "run `uv pip install pip` in this environment, or install the package python3-venv",
    )
