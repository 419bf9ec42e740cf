"""Opens a connection to a NATS server: resolve, connect, TLS, login. Each step raises its own error.

The server sends INFO in plain text first; TLS starts after that. Servers that INFO lists are ignored: the
caller has checked the addresses in the options, and no others.
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
from quintet.nats.connection import NatsConnection
from quintet.nats.credentials import NatsCredentials
from quintet.nats.errors import (
    CertificateExpired,
    CredentialsError,
    Disconnected,
    ServerUnreachable,
    TlsFailed,
    Unresolved,
)
from quintet.nats.options import NatsOptions
from quintet.nats.protocol import ServerInfo
from quintet.web.happy_eyeballs import connect_first

# X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED
_EXPIRED = (9, 10)


async def connect(options: NatsOptions, subscribe: bytes = b"") -> NatsConnection:
    """Return a connection that is logged in, to the first address that responds.

    Each address has `connect_seconds`. Their order is random, so that clients spread over the servers.
    The login includes the encoded SUB, and fails if the server does not permit it.
    """
    addresses = list(options.addresses)
    if not addresses:
        async with _timeout(options):
            addresses = await _resolve(options)
    if not addresses:
        raise ServerUnreachable(f"{options.address} has no address")
    random.shuffle(addresses)
    attempts = [partial(_connect_to, options, subscribe, address) for address in addresses]
    return await connect_first(attempts, ServerUnreachable, NatsConnection.abort)


async def _connect_to(options: NatsOptions, subscribe: bytes, address: str) -> NatsConnection:
    async with _timeout(options):
        return await _open(options, subscribe, address)


@asynccontextmanager
async def _timeout(options: NatsOptions) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(options.connect_seconds):
            yield
    except TimeoutError as error:
        raise ServerUnreachable(
            f"{options.address} did not respond within {options.connect_seconds:g} s"
        ) from error


async def _resolve(options: NatsOptions) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise Unresolved(f"cannot resolve host {options.host} ({error})") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def _open(options: NatsOptions, subscribe: bytes, address: str) -> NatsConnection:
    loop = asyncio.get_running_loop()
    try:
        _, connection = await loop.create_connection(
            lambda: NatsConnection(options.max_pending_bytes), address, options.port
        )
    except OSError as error:
        raise ServerUnreachable(f"{options.address} ({address}): {error.strerror or error}") from error
    try:
        info = await connection.first_info()
        encrypted = await _encrypt(connection, info, options)
        await _log_in(connection, info, options, subscribe, encrypted=encrypted)
    except Exception as error:
        connection.abort()
        # If sending failed on a lost connection, the error of the server says why.
        cause = connection.error if isinstance(error, Disconnected) and connection.error else error
        raise _translate(cause, options) from error
    except BaseException:
        connection.abort()
        raise
    return connection


async def _encrypt(connection: NatsConnection, info: ServerInfo, options: NatsOptions) -> bool:
    credentials = options.credentials or NatsCredentials()
    required = options.tls or bool(credentials.ca or credentials.certificate)
    if not required and not info.tls_required:
        return False
    if not info.tls_required and not info.tls_available:
        raise TlsFailed(
            f"{options.address} does not offer TLS: enable it there, or use nats:// instead of tls://"
        )
    context = tls_context(credentials)
    loop = asyncio.get_running_loop()
    transport = await loop.start_tls(connection.transport, connection, context, server_hostname=options.host)
    if transport is None:
        raise ServerUnreachable(f"{options.address} closed the connection during the TLS handshake")
    connection.transport = transport
    return True


async def _log_in(
    connection: NatsConnection, info: ServerInfo, options: NatsOptions, subscribe: bytes, *, encrypted: bool
) -> None:
    accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_pong(error: Exception | None) -> None:
        if not accepted.done():
            accepted.set_exception(error) if error else accepted.set_result(None)

    credentials = options.credentials or NatsCredentials()
    settings: dict[str, Any] = {
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
    connection.log_in(protocol.encode_connect(settings, subscribe), on_pong)
    await accepted


def tls_context(credentials: NatsCredentials) -> ssl.SSLContext:
    """Return a TLS context with the CA and the client certificate of the credentials."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if credentials.ca:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=credentials.ca.decode("ascii", "replace"))
    except ssl.SSLError as error:
        raise CredentialsError("ca.crt", "is not a certificate") from error
    if credentials.certificate:
        try:
            with _as_file(credentials.certificate) as certificate, _as_file(credentials.key) as key:
                context.load_cert_chain(certificate, key, password=_reject_password)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError("tls.key", "does not match tls.crt, or one of them is invalid") from error
    return context


def _reject_password() -> str:
    # Without a callback OpenSSL would prompt on the terminal.
    raise ValueError("the key is encrypted")


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with this content, in memory where possible; OpenSSL reads only files."""
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


def _translate(error: Exception, options: NatsOptions) -> Exception:
    """Return the error of the step that failed."""
    match error:
        case Disconnected():
            return ServerUnreachable(f"{options.address}: {error}")
        case ssl.SSLCertVerificationError():
            kind = CertificateExpired if error.verify_code in _EXPIRED else TlsFailed
            return kind(f"the certificate of {options.address} is not trusted: {error.verify_message}")
        case ssl.SSLError():
            reason = (error.reason or str(error)).lower().replace("_", " ")
            kind = CertificateExpired if "certificate expired" in reason else TlsFailed
            return kind(f"TLS with {options.address} failed: {reason}")
        case OSError() | EOFError():
            return ServerUnreachable(
                f"{options.address} closed the connection before the login was complete ({error})"
            )
    return error
