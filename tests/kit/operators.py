"""Operators in processes of their own, that can be killed, frozen and started again."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

TESTS = Path(__file__).parent.parent


class Operator:
    """A widget operator as a process; `start` again after it was killed."""

    def __init__(self, kubeconfig: Path, *arguments: str) -> None:
        self._argv = [sys.executable, "-m", "kit.widgets", str(kubeconfig), *arguments]
        self._process: asyncio.subprocess.Process | None = None
        self.log: list[str] = []
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin, or begin again."""
        await self.ended()
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            cwd=TESTS,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stderr=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def signal(self, number: int) -> None:
        """Send a signal to this very process."""
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ended(self) -> int | None:
        """Wait for the end of the process; its exit code."""
        if self._process is None or self._reader is None:
            return None
        await self._process.wait()
        await self._reader
        return self._process.returncode

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())


@contextlib.asynccontextmanager
async def an_operator(kubeconfig: Path, *arguments: str) -> AsyncIterator[Operator]:
    """A running operator, killed on the way out."""
    operator = Operator(kubeconfig, *arguments)
    await operator.start()
    try:
        yield operator
    finally:
        operator.signal(signal.SIGCONT)
        operator.kill()
        await operator.ended()
