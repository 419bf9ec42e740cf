"""The command `quintet` as a user runs it in a namespace: once, or followed while it runs."""

import asyncio
import codecs
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from kit.eventually import eventually

COMMAND = Path(sys.executable).parent / "quintet"


@dataclass(frozen=True)
class Person:
    """A user with a kubeconfig who works in one namespace."""

    kubeconfig: Path
    namespace: str
    context: str = ""

    def _argv(self, arguments: tuple[str, ...]) -> list[str]:
        context = ["--context", self.context] if self.context else []
        where = ["--kubeconfig", str(self.kubeconfig), *context, "-n", self.namespace]
        words = 2 if arguments[0] == "deadletters" else 1
        return [str(COMMAND), *arguments[:words], *where, *arguments[words:]]

    async def asks(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end without blocking the event loop."""
        process = await asyncio.create_subprocess_exec(
            *self._argv(arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), err.decode())

    async def sees(self, *arguments: str) -> str:
        """Return the output of a command that must succeed."""
        answer = await self.asks(*arguments)
        assert answer.returncode == 0, f"exit {answer.returncode}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    @contextlib.asynccontextmanager
    async def follows(self, *arguments: str, terminal: bool = False) -> AsyncIterator["Followed"]:
        """Run a command that keeps printing, perhaps to a terminal; it is interrupted on exit, as by Ctrl-C."""
        output, reader = await _open_terminal() if terminal else (asyncio.subprocess.PIPE, None)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv(arguments), stdout=output, stderr=asyncio.subprocess.STDOUT
            )
        finally:
            if reader is not None:
                os.close(output)
        source = reader or process.stdout
        assert source is not None
        followed = Followed(process)
        reading = asyncio.create_task(followed.read(source))
        try:
            yield followed
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            await process.wait()
            await reading


async def _open_terminal() -> tuple[int, asyncio.StreamReader]:
    """Return a terminal of 160 columns and 40 lines, and a reader of what is written to it."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb")
    )
    return theirs, reader


class Followed:
    """A running command and its output so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.shown = ""

    async def read(self, source: asyncio.StreamReader) -> None:
        # A chunk may end in the middle of a character.
        decoder = codecs.getincrementaldecoder("utf-8")()
        with contextlib.suppress(OSError):  # a terminal that nobody writes to any more
            while piece := await source.read(65536):
                self.shown += decoder.decode(piece)

    async def shows(self, text: str, within: float = 120.0) -> None:
        """Wait until the output contains a text."""

        def there() -> None:
            assert text in self.shown, f"no {text!r} in\n{self.shown}"

        await eventually(there, within=within)

    def interrupt(self) -> None:
        """Interrupt the command, as by Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    async def ends(self) -> int:
        """Wait for the command to end and return its exit code."""
        return await self._process.wait()
