"""The command `quintet` as a user runs it, while controllers run in the process of the test."""

import asyncio
import os
from typing import NamedTuple

from kit.cli.quintet import COMMAND


class Said(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def shown(self) -> str:
        """Exit code and all output, for assertion messages."""
        return f"exit {self.code}\n{self.out}{self.err}"


async def quintet(*arguments: object, input: str | None = None) -> Said:
    """Run one command to its end."""
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL if input is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
    )
    out, err = await process.communicate(None if input is None else input.encode())
    assert process.returncode is not None
    said = Said(process.returncode, out.decode(), err.decode())
    assert "Traceback" not in said.err, said.shown
    return said


async def works(*arguments: object, input: str | None = None) -> str:
    """Return the output of a command that must succeed."""
    said = await quintet(*arguments, input=input)
    assert said.code == 0, said.shown
    return said.out
