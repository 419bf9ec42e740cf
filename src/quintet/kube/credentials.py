"""Who we are to the API server: nobody, a fixed header, a renewed token file, or a plugin.

Made by `config`, asked by `transport` before each request. `renew` is called when the
server answered 401 and says whether a second try can make sense.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.meta import Struct
from quintet.kube.errors import ConfigError

EXEC_API = "client.authentication.k8s.io/v1"

Seconds = Callable[[], float]
"""Reads a clock."""


class Credentials(Protocol):
    """Something that can say the `Authorization` header of the next request."""

    async def header(self) -> str | None:
        """The header's value, or None where the TLS client certificate says who we are."""
        ...

    async def renew(self, refused: str | None) -> bool:
        """Forget a header that was refused; True if there is hope for a second try.

        Several requests may be refused at once: the first renews, the others find that done.
        """
        ...


class Anonymous:
    """No header: a client certificate speaks for us, or nothing does."""

    async def header(self) -> str | None:
        """Nothing to say."""
        return None

    async def renew(self, refused: str | None) -> bool:
        """A certificate does not get better by asking again."""
        return False


@dataclass(frozen=True, slots=True)
class StaticHeader:
    """A fixed token or password."""

    value: str = field(repr=False)

    async def header(self) -> str | None:
        """Always the same."""
        return self.value

    async def renew(self, refused: str | None) -> bool:
        """There is only this one."""
        return False


class FileToken:
    """A token in a file that somebody keeps fresh, as the kubelet does in every pod."""

    # The kubelet renews a token when a fifth of its life is left, so a minute is early enough.
    _REREAD_AFTER = 60.0

    def __init__(self, path: Path, clock: Seconds = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._value: str | None = None
        self._read_at = 0.0

    async def header(self) -> str | None:
        """The token as it stood at most a minute ago."""
        if self._value is None or self._clock() - self._read_at > self._REREAD_AFTER:
            self._read()
        return self._value

    async def renew(self, refused: str | None) -> bool:
        """Read the file again; hopeful if it holds another token now."""
        self._read()
        return self._value != refused

    def _read(self) -> None:
        """Take what the file holds; one that cannot be read now may be readable in a minute."""
        try:
            token = self._path.read_text().strip()
            problem = "" if token else "it is empty"
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        if not problem:
            self._value = f"Bearer {token}"
        elif self._value is None:
            raise ConfigError(f"token file {self._path} cannot be read ({problem})", "check the path")
        self._read_at = self._clock()


class _Issued(Struct, frozen=True):
    """The part of an ExecCredential that the plugin fills in."""

    token: str
    expiration_timestamp: datetime | None = None


class _ExecCredential(Struct, frozen=True):
    status: _Issued


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """How to run a credential plugin."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    api_version: str = EXEC_API
    hint: str = ""
    """What to do if there is no such program."""
    cluster: Mapping[str, Any] | None = None
    """The cluster to tell it about, if it asked for that."""
    patience: float = 60.0

    def request(self) -> str:
        """What the plugin is told, in its environment."""
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        return json.dumps({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec})


class ExecPlugin:
    """A program that prints an ExecCredential with a token, as cloud providers ship."""

    # Renew a little early, so that a token does not run out on its way to the server.
    _EARLY = 30.0

    def __init__(
        self,
        plugin: Plugin,
        # Compared with the issuer's clock, so it must be the time of day.
        clock: Seconds = time.time,  # noqa: TID251 - the injected default
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._value: str | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        """The plugin's token, asked for again when it is about to expire."""
        async with self._lock:
            if self._value is None or self._expired():
                await self._ask()
            return self._value

    async def renew(self, refused: str | None) -> bool:
        """Ask the plugin again, unless somebody has in the meantime."""
        if self._value == refused:
            self._value = None
        return True

    def _expired(self) -> bool:
        return self._expires is not None and self._expires.timestamp() - self._EARLY < self._clock()

    async def _ask(self) -> None:
        output = await self._run()
        try:
            issued = msgspec.json.decode(output, type=_ExecCredential).status
        except DECODE_ERRORS as error:
            raise ConfigError(
                f"credential plugin {self._plugin.argv[0]} printed no token ({error})",
                "check its version and arguments",
            ) from error
        self._value, self._expires = f"Bearer {issued.token.strip()}", issued.expiration_timestamp

    async def _run(self) -> bytes:
        name = self._plugin.argv[0]
        environ = {**os.environ, **self._plugin.environ, "KUBERNETES_EXEC_INFO": self._plugin.request()}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._plugin.argv,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(
                f"credential plugin {name} cannot run ({error.strerror})", self._plugin.hint
            ) from error
        try:
            output, errors = await asyncio.wait_for(process.communicate(), self._plugin.patience)
        except TimeoutError:
            raise ConfigError(
                f"credential plugin {name} gave no answer in {self._plugin.patience:g} s",
                "run it by hand: it may be waiting for an answer",
            ) from None
        finally:
            if process.returncode is None:  # late, or nobody waits any more
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            raise ConfigError(
                f"credential plugin {name} failed with {process.returncode} ({last[0]})", "log in again"
            )
        return output
