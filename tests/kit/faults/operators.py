"""Operators in processes of their own."""

import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from kit.process import Program

TESTS = Path(__file__).parents[2]


def operator_of(kind: str, kubeconfig: Path, context: str, namespace: str) -> Program:
    """Return the operator of one kind of ours for one namespace, yet to be started."""
    argv = [sys.executable, "-m", "kit.faults.operator_main", kind, str(kubeconfig), context, namespace]
    return Program(*argv, environment={"PYTHONPATH": str(TESTS)})


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, *arguments: str) -> AsyncIterator[Program]:
    """A running operator of Widgets, killed on the way out."""
    argv = [sys.executable, "-m", "kit.kinds.widgets", str(kubeconfig), *arguments]
    operator = Program(*argv, environment={"PYTHONPATH": str(TESTS)})
    await operator.start()
    try:
        yield operator
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
