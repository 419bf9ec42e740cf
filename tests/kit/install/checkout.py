"""Copies of this checkout at another place: what is made of them must not depend on where they are."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Made by commands, and no part of the source.
_MADE = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "build", "dist", "node_modules", "share")


def copy_of(source: Path, target: Path) -> Path:
    """Copy the source alone."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*_MADE))
    return target
