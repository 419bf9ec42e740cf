"""Copies of this checkout in another folder: builds must not depend on the folder."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Made by commands, and no part of the source.
_MADE = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "node_modules", "share")


def copy_source(source: Path, target: Path) -> Path:
    """Copy the source files without build products."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_MADE))
    return target
