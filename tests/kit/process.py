"""Processes that tests start, kill and freeze."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the test process dies (Linux only)."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A process and its log; it can be started again after it was killed."""

    def __init__(self, *argv: str, environment: Mapping[str, str] | None = None) -> None:
        self._argv = argv
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None
        self.log: list[str] = []
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start or restart the process."""
        await self.ended()
        self._process = await asyncio.create_subprocess_exec(
            *self._argv,
            env=self._environment,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=end_with_parent,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    async def ended(self) -> int | None:
        """Wait for the process to end and return its exit code."""
        if self._process is None or self._reader is None:
            return None
        await self._process.wait()
        # A cancelled waiter must not cancel the reader: others may wait too.
        await asyncio.wait([self._reader])
        return self._process.returncode

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())
