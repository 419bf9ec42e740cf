"""Starts, observes and stops the process of a contender."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from benchmarks.contenders import Launch
from quintet.clock import SystemClock

GRACE = 15.0
clock = SystemClock()


class ContenderProcess:
    """A process and its log."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """The pid of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    def output(self) -> str:
        """Return the output so far."""
        return self._log.read_text(errors="replace")

    async def wait_for_output(self, text: str, within: float) -> None:
        """Wait until the output contains a text."""
        try:
            async with asyncio.timeout(within):
                while text not in self.output():
                    self.check()
                    await clock.sleep(0.02)
        except TimeoutError:
            raise RuntimeError(f"no {text!r} within {within:g} s; output:\n{self.output()[-2000:]}") from None

    def check(self) -> None:
        """Raise an error if the process has failed."""
        if self._process.returncode not in (None, 0):
            code = self._process.returncode
            raise RuntimeError(f"the contender ended with {code}:\n{self.output()[-2000:]}")

    async def wait(self) -> None:
        """Wait until the process ends by itself."""
        await self._process.wait()
        self.check()

    async def stop(self) -> None:
        """Stop the process with SIGTERM, then SIGKILL."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@contextlib.asynccontextmanager
async def start_process(launch: Launch) -> AsyncIterator[ContenderProcess]:
    """Run a process for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        log = Path(scratch) / "log"
        stdin = launch.stdin.open("rb") if launch.stdin else None
        try:
            with log.open("wb") as output:
                process = await asyncio.create_subprocess_exec(
                    *launch.argv,
                    env={**os.environ, **launch.environment},
                    stdin=stdin or asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
        finally:
            if stdin:
                stdin.close()
        found = ContenderProcess(process, log)
        try:
            yield found
        finally:
            await found.stop()
