"""Finds pip, or creates an environment that has it: environments of uv have none."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from pathlib import Path


def find_pip(folder: Path) -> list[str]:
    """Return the command that runs pip, from this environment or from a new one in `folder`."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    environment = folder / "pip"
    commands = [[sys.executable, "-m", "venv", str(environment)]]
    if uv := shutil.which("uv"):
        commands.append(
            [uv, "venv", "--quiet", "--clear", "--seed", f"--python={sys.executable}", str(environment)]
        )
    for command in commands:
        if subprocess.run(command, capture_output=True).returncode == 0:
            return [str(environment / "bin/python"), "-m", "pip"]
    raise LocalError(
        f"there is no pip for {sys.executable}, and no environment with pip could be created",
        "run `uv pip install pip` in this environment, or install the package python3-venv",
    )
