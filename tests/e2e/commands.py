"""kubectl for tests that assert on its output, and waiting for a state."""

import time
from collections.abc import Callable

from quintet.local.cluster import Cluster


def kubectl(node: Cluster, *arguments: str, input: str | None = None) -> str:
    """Run kubectl, assert that it succeeds, and return its output."""
    answer = node.kubectl(*arguments, input=input)
    assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
    return answer.stdout


def eventually(
    check: Callable[[], bool], what: str, seen: Callable[[], str] = str, seconds: float = 60
) -> None:
    """Wait until `check` returns true; a failure shows `seen`."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}; {seen()}"
        time.sleep(0.2)
