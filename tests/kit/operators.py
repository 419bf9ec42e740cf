"""Widget operators in processes of their own."""

import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from kit.process import Program

TESTS = Path(__file__).parent.parent


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, *arguments: str) -> AsyncIterator[Program]:
    """A running operator, killed on the way out."""
    argv = [sys.executable, "-m", "kit.widgets", str(kubeconfig), *arguments]
    operator = Program(*argv, environment={"PYTHONPATH": str(TESTS)})
    await operator.start()
    try:
        yield operator
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
