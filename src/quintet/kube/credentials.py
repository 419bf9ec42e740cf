"""Credentials for the API server: none, a static header, a token file or an exec plugin."""

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

ReadClock = Callable[[], float]
"""Returns a time in seconds."""


class Credentials(Protocol):
    """Provides the `Authorization` header of requests, or a client certificate."""

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """The certificate and key that a plugin has issued."""
        ...

    async def header(self) -> str | None:
        """Return the value of the header; None if the request needs none, as with a client certificate."""
        ...

    async def renew(self, refused: str | None) -> bool:
        """Discard a header that the server rejected with 401; return whether a retry can succeed.

        Several requests may be rejected at the same time: only the first renews the header.
        """
        ...


class _WithoutCertificate:
    """Credentials that issue no certificate."""

    __slots__ = ()

    @property
    def certificate(self) -> None:
        """None."""
        return None


class Anonymous(_WithoutCertificate):
    """No header: a client certificate or anonymous access."""

    async def header(self) -> str | None:
        """Return None."""
        return None

    async def renew(self, refused: str | None) -> bool:
        """Return False: there is nothing to renew."""
        return False


@dataclass(frozen=True, slots=True)
class StaticHeader(_WithoutCertificate):
    """A fixed token or password."""

    value: str = field(repr=False)

    async def header(self) -> str | None:
        """Return the fixed value."""
        return self.value

    async def renew(self, refused: str | None) -> bool:
        """Return False: there is nothing to renew."""
        return False


class FileToken(_WithoutCertificate):
    """A token in a file that is renewed by someone else, as by the kubelet in every pod."""

    # The kubelet renews a token long before it expires, so one minute is early enough.
    _REREAD_AFTER = 60.0

    def __init__(self, path: Path, clock: ReadClock = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._value: str | None = None
        self._read_at = 0.0

    async def header(self) -> str | None:
        """Return the token; the file is read at most once a minute."""
        if self._value is None or self._clock() - self._read_at > self._REREAD_AFTER:
            self._read()
        return self._value

    async def renew(self, refused: str | None) -> bool:
        """Read the file again; return whether the token has changed."""
        self._read()
        return self._value != refused

    def _read(self) -> None:
        """Read the token; if that fails, keep the previous one until the next read."""
        try:
            token = self._path.read_text().strip()
            problem = "" if token else "the file is empty"
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        if not problem:
            self._value = f"Bearer {token}"
        elif self._value is None:
            raise ConfigError(f"cannot read token file {self._path} ({problem})", "check the path")
        self._read_at = self._clock()


class _ExecCredentialStatus(Struct, frozen=True):
    """The part of an ExecCredential that the plugin returns."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(Struct, frozen=True):
    status: _ExecCredentialStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """How to run a credential plugin."""

    argv: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    api_version: str = EXEC_API
    hint: str = ""
    """What to do if the program does not exist."""
    cluster: Mapping[str, Any] | None = None
    """The cluster to pass to the plugin, if `provideClusterInfo` is set."""
    timeout: float = 60.0

    def request(self) -> str:
        """Return the value of KUBERNETES_EXEC_INFO."""
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        return json.dumps({"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec})


class ExecPlugin:
    """A program that prints an ExecCredential: a token, a client certificate, or both."""

    # Renew early, so that a token does not expire on its way to the server.
    _RENEW_EARLY_SECONDS = 30.0

    def __init__(
        self,
        plugin: Plugin,
        # Compared with the expiration timestamp, so it must be wall-clock time.
        clock: ReadClock = time.time,  # noqa: TID251 - the injected default
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._value: str | None = None
        self._issued = False
        self._expires: datetime | None = None
        self.certificate: tuple[bytes, bytes] | None = None
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        """Return the token of the plugin; run the plugin again shortly before it expires."""
        async with self._lock:
            if not self._issued or self._is_expired():
                await self._fetch()
            return self._value

    async def renew(self, refused: str | None) -> bool:
        """Discard the token and certificate, unless the token was renewed in the meantime."""
        if self._value == refused:
            self._issued = False
        return True

    def _is_expired(self) -> bool:
        return (
            self._expires is not None
            and self._expires.timestamp() - self._RENEW_EARLY_SECONDS < self._clock()
        )

    async def _fetch(self) -> None:
        output = await self._run()
        try:
            issued = msgspec.json.decode(output, type=_ExecCredential).status
        except DECODE_ERRORS as error:
            raise ConfigError(
                f"credential plugin {self._plugin.argv[0]} did not print a valid ExecCredential ({error})",
                "check its version and arguments",
            ) from error
        token, certificate, key = issued.token.strip(), issued.client_certificate_data, issued.client_key_data
        if not token and not (certificate and key):
            raise ConfigError(
                f"credential plugin {self._plugin.argv[0]} printed neither a token nor a client certificate "
                "with its key",
                "check its version and arguments",
            )
        self._value, self._expires = f"Bearer {token}" if token else None, issued.expiration_timestamp
        self.certificate = (certificate.encode(), key.encode()) if certificate and key else None
        self._issued = True

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
                f"cannot run credential plugin {name} ({error.strerror})", self._plugin.hint
            ) from error
        try:
            output, errors = await asyncio.wait_for(process.communicate(), self._plugin.timeout)
        except TimeoutError:
            raise ConfigError(
                f"credential plugin {name} did not finish within {self._plugin.timeout:g} s",
                "run it in a terminal: it may be waiting for input",
            ) from None
        finally:
            if process.returncode is None:  # after the timeout or a cancellation
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            raise ConfigError(
                f"credential plugin {name} exited with {process.returncode} ({last[0]})", "log in again"
            )
        return output
