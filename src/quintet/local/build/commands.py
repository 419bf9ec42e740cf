"""Runs build commands; the error of a failed one has the reason in one line."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# A fixed timestamp for files in images, so that the same input gives the same image.
EPOCH = "0"


def run(command: list[str], cwd: Path | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Run a command and return its standard output; raise an error with its reason if it fails."""
    settings = {**environment, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": EPOCH}
    result = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings)
    if result.returncode == 0:
        return result.stdout
    lines = [line.strip() for line in (result.stderr + result.stdout).splitlines() if line.strip()]
    if any("no space left" in line.lower() for line in lines):
        raise LocalError("the disk became full while building an image", "free disk space and run it again")
    errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
    reason = (errors or lines or ["no error message"])[-1]
    raise LocalError(
        f"{' '.join(command[:2])} failed: {reason[:300]}", f"run `{' '.join(command)}` to see its full output"
    )
