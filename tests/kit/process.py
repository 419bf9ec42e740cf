"""Programs of their own, that can be killed, frozen and started again."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Have the kernel kill this process when the test process dies, where it can (Linux)."""
    if hasattr(_libc, "prctl"):
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
    """A program and what it logs; `start` again after it was killed."""

    def __init__(self, *argv: str, environment: Mapping[str, str] | None = None) -> None:
        self._argv = argv
        self._environment = {**os.environ, **(environment or {})}
        self._process: asyncio.subprocess.Process | None = None
        self.log: list[str] = []
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin, or begin again."""
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
        # Whoever stops waiting must not stop the reader with it: somebody else may wait as well.
        await asyncio.wait([self._reader])
        return self._process.returncode

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.log.append(line.decode(errors="replace").rstrip())
