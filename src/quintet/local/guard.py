"""Removes a cluster whose `up` was killed before the start was complete.

`up` runs this module as a process, `python -m quintet.local.guard`, with a pipe as its standard input.
The pipe closes when `up` ends, in whatever way; the cluster's folder then shows whether the start was
completed, undone or interrupted.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quintet.local.paths import cluster_directory

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def guard_start(name: str, attempt: str) -> Iterator[None]:
    """Remove the cluster `name` if this process dies before the block has completed or undone its start."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "quintet.local.guard", name, attempt],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in a terminal must not reach the guard.
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        # After an interrupted start the guard waits for the lock of this process: waiting would hang.
        if not was_interrupted(name, attempt):
            process.wait()


def was_interrupted(name: str, attempt: str) -> bool:
    """Return whether this attempt began the start and neither completed nor undid it."""
    directory = cluster_directory(name)
    return read_attempt(name) == attempt and not (directory / "cluster.json").exists()


def read_attempt(name: str) -> str | None:
    """Return the id of the start attempt that created the cluster's folder."""
    try:
        return (cluster_directory(name) / "attempt").read_text()
    except FileNotFoundError:
        return None


def main(name: str, attempt: str) -> None:
    """Wait until `up` ends; remove an interrupted cluster, unless a newer attempt has replaced it."""
    sys.stdin.read()
    if was_interrupted(name, attempt):
        from quintet.local.cluster import down

        down(name, only_attempt=attempt)


if __name__ == "__main__":
    main(*sys.argv[1:])
