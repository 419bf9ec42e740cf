"""Watches over one `up`: when that process dies half-way, what it had started is removed.

Started by `cluster` with a pipe as its input; run as `python -m quintet.local.guard`. The pipe
closes when `up` is over, however it ended: the cluster's folder then tells whether the start
was finished or undone, or was cut off in between.
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
    """Have the cluster `name` removed if this process does not finish or undo its start in the block."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "quintet.local.guard", name, attempt],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in a terminal must not reach it.
        start_new_session=True,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        # While something is left to undo it waits for the lock that we hold: it must not be waited for.
        if not was_interrupted(name, attempt):
            process.wait()


def was_interrupted(name: str, attempt: str) -> bool:
    """Whether that start was begun, and neither finished nor undone."""
    directory = cluster_directory(name)
    return read_attempt(name) == attempt and not (directory / "cluster.json").exists()


def read_attempt(name: str) -> str | None:
    """Return which start made what is in the cluster's folder."""
    try:
        return (cluster_directory(name) / "attempt").read_text()
    except FileNotFoundError:
        return None


def main(name: str, attempt: str) -> None:
    """Wait until the start is over; remove what it has left, unless somebody has begun it anew."""
    sys.stdin.read()
    if was_interrupted(name, attempt):
        from quintet.local.cluster import down

        down(name, only_attempt=attempt)


if __name__ == "__main__":
    main(*sys.argv[1:])
