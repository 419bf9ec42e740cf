"""Runs a program that builds something, and gives its reason as one line when it fails.

Called by `bases`, `builders` and `staging`.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Files in an image have no time of day, so that the same input gives the same image.
EPOCH = "0"


def run(command: list[str], cwd: Path | None = None, environment: Mapping[str, str] = os.environ) -> str:
    """Run a command; return what it printed, or raise its own reason as one line."""
    settings = {**environment, "LC_ALL": "C.UTF-8", "SOURCE_DATE_EPOCH": EPOCH}
    answer = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings)
    if answer.returncode == 0:
        return answer.stdout
    said = [line.strip() for line in (answer.stderr + answer.stdout).splitlines() if line.strip()]
    if any("no space left" in line.lower() for line in said):
        raise LocalError("the disk became full while building an image", "free some space and run it again")
    telling = [line for line in said if "error" in line.lower() or line.startswith("E:")]
    reason = (telling or said or ["it gave no reason"])[-1]
    raise LocalError(
        f"{' '.join(command[:2])} failed: {reason[:300]}", f"run `{' '.join(command)}` to see all of it"
    )
