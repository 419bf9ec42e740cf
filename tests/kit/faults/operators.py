"""Operators as separate processes."""

import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from kit.process import Program

TESTS = Path(__file__).parents[2]


def operator_of(kind: str, kubeconfig: Path, context: str, namespace: str) -> Program:
    """Return the operator of one kind for one namespace; the caller starts it."""
    argv = [sys.executable, "-m", "kit.faults.operator_main", kind, str(kubeconfig), context, namespace]
    return Program(*argv, environment={"PYTHONPATH": str(TESTS)})


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, *arguments: str) -> AsyncIterator[Program]:
    """Run the Widget operator while inside and kill it afterwards."""
    argv = [sys.executable, "-m", "kit.kinds.widgets", str(kubeconfig), *arguments]
    operator = Program(*argv, environment={"PYTHONPATH": str(TESTS)})
    await operator.start()
    try:
        yield operator
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
