"""Opens a connection to a NATS server: resolve, connect, TLS, log in; each step fails by its own error.

Called by `client`. The server speaks first, in the clear; TLS begins after that. Other servers
that it names are not followed: where to connect was judged by whoever gave the options.
"""

import asyncio
import os
import random
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from quintet import __version__
from quintet.nats import protocol
from quintet.nats.credentials import Credentials
from quintet.nats.errors import (
    CertificateExpired,
    CredentialsError,
    Disconnected,
    TlsFailed,
    Unreachable,
    Unresolved,
)
from quintet.nats.options import Options
from quintet.nats.protocol import ServerInfo
from quintet.nats.wire import Wire
from quintet.web.happy_eyeballs import connect_first

# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED
_OUT_OF_DATE = (9, 10)


async def dial(options: Options) -> Wire:
    """Return a connection that is logged in, to the first address that answers.

    Each address has `connect_seconds`. Their order is random, so that clients spread over the servers.
    """
    addresses = list(options.addresses)
    if not addresses:
        async with _limited(options):
            addresses = await _resolved(options)
    if not addresses:
        raise Unreachable(f"there is no address to reach {options.place} at")
    random.shuffle(addresses)
    attempts = [partial(_attempt, options, address) for address in addresses]
    return await connect_first(attempts, Unreachable, Wire.abort)


async def _attempt(options: Options, address: str) -> Wire:
    async with _limited(options):
        return await _opened(options, address)


@asynccontextmanager
async def _limited(options: Options) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(options.connect_seconds):
            yield
    except TimeoutError as error:
        raise Unreachable(f"{options.place} did not answer within {options.connect_seconds:g} s") from error


async def _resolved(options: Options) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise Unresolved(f"the host {options.host} has no address ({error})") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _opened(options: Options, address: str) -> Wire:
    loop = asyncio.get_running_loop()
    try:
        _, wire = await loop.create_connection(lambda: Wire(options.most_waiting), address, options.port)
    except OSError as error:
        raise Unreachable(f"{options.place} ({address}): {error.strerror or error}") from error
    try:
        info = await wire.greeting()
        encrypted = await _encrypt(wire, info, options)
        await _log_in(wire, info, options, encrypted=encrypted)
    except Exception as error:
        wire.abort()
        # It may have ended while we were about to say something: what the server said before counts.
        cause = wire.error if isinstance(error, Disconnected) and wire.error else error
        raise _explained(cause, options) from error
    except BaseException:
        wire.abort()
        raise
    return wire


async def _encrypt(wire: Wire, info: ServerInfo, options: Options) -> bool:
    credentials = options.credentials or Credentials()
    wanted = options.tls or bool(credentials.ca or credentials.certificate)
    if not wanted and not info.tls_required:
        return False
    if not info.tls_required and not info.tls_available:
        raise TlsFailed(f"{options.place} does not offer TLS; use nats:// if that is meant")
    context = tls_context(credentials)
    loop = asyncio.get_running_loop()
    transport = await loop.start_tls(wire.transport, wire, context, server_hostname=options.host)
    if transport is None:
        raise Unreachable(f"{options.place} closed the connection during the TLS handshake")
    wire.transport = transport
    return True


async def _log_in(wire: Wire, info: ServerInfo, options: Options, *, encrypted: bool) -> None:
    accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(error: Exception | None) -> None:
        if not accepted.done():
            accepted.set_exception(error) if error else accepted.set_result(None)

    credentials = options.credentials or Credentials()
    words: dict[str, Any] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": encrypted,
        "name": options.name,
        "lang": "python-quintet",
        "version": __version__,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        **credentials.login(info.nonce),
    }
    wire.log_in(protocol.connect(words), answered)
    await accepted


def tls_context(credentials: Credentials) -> ssl.SSLContext:
    """Return whom we trust, and who we are."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if credentials.ca:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=credentials.ca.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise CredentialsError("ca.crt", "is no certificate") from error
    if credentials.certificate:
        try:
            with _as_file(credentials.certificate) as certificate, _as_file(credentials.key) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError("tls.key", "does not fit to tls.crt, or one of them is broken") from error
    return context


def _no_password() -> str:
    # Without an answer OpenSSL would ask at the terminal.
    raise ValueError("the key is encrypted")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A name for bytes, since OpenSSL reads keys from files only; never on a disk where memory will do."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("quintet-nats")
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()
    try:
        os.write(descriptor, content)
        yield path
    finally:
        os.close(descriptor)
        if not path.startswith("/proc/"):
            os.unlink(path)


def _explained(error: Exception, options: Options) -> Exception:
    """Say which step failed."""
    match error:
        case Disconnected():
            return Unreachable(f"{options.place}: {error}")
        case ssl.SSLCertVerificationError():
            kind = CertificateExpired if error.verify_code in _OUT_OF_DATE else TlsFailed
            return kind(f"the certificate of {options.place} is not accepted: {error.verify_message}")
        case ssl.SSLError():
            reason = (error.reason or str(error)).lower().replace("_", " ")
            kind = CertificateExpired if "certificate expired" in reason else TlsFailed
            return kind(f"TLS with {options.place} failed: {reason}")
        case OSError() | EOFError():
            return Unreachable(f"{options.place} ended the connection before the login was through ({error})")
    return error
