"""A contender's process: started, watched for its end, stopped by its own id whatever happens."""

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


class Running:
    """One process and where its words go."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Of the process itself."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    def words(self) -> str:
        """What it has said so far."""
        return self._log.read_text(errors="replace")

    async def says(self, text: str, within: float) -> None:
        """Wait until it has said something."""
        try:
            async with asyncio.timeout(within):
                while text not in self.words():
                    self.check()
                    await clock.sleep(0.02)
        except TimeoutError:
            raise RuntimeError(f"no {text!r} within {within:g} s; it said:\n{self.words()[-2000:]}") from None

    def check(self) -> None:
        """Raise if it has ended badly."""
        if self._process.returncode not in (None, 0):
            code = self._process.returncode
            raise RuntimeError(f"the contender ended with {code}:\n{self.words()[-2000:]}")

    async def ended(self) -> None:
        """Wait for an end that is not asked for."""
        await self._process.wait()
        self.check()

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL, to this very process."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(GRACE):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@contextlib.asynccontextmanager
async def running(launch: Launch) -> AsyncIterator[Running]:
    """A process while inside."""
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
        found = Running(process, log)
        try:
            yield found
        finally:
            await found.stop()
