"""Watches over one `up`: when that process dies half-way, what it had started is removed.

Started by `cluster` with a pipe as its input; run as `python -m quintet.local.guard`.
A closed pipe without the word "done" means that the other end was killed.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

DONE = b"done"


@contextmanager
def guarded(name: str, attempt: str) -> Iterator[None]:
    """Have the cluster `name` removed if this process does not live to leave the block."""
    command = [sys.executable, "-m", "quintet.local.guard", name, attempt]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in a terminal must not reach it.
        start_new_session=True,
    ) as process:
        try:
            yield
        finally:
            process.communicate(DONE)


def main(name: str, attempt: str) -> None:
    """Wait for the word; without it remove the cluster, unless somebody has begun it anew."""
    if sys.stdin.buffer.read() == DONE:
        return
    from quintet.local.cluster import down

    down(name, only_attempt=attempt)


if __name__ == "__main__":
    main(*sys.argv[1:])
