"""POST requests to one URL over pooled connections. Responses are bounded; redirects are not followed."""

import functools
import socket
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from quintet.clock import Clock
from quintet.web.connection import ConnectionTarget, connect
from quintet.web.pool import ConnectionPool, HttpResponse

MAX_IDLE: Final = 32
IDLE_SECONDS: Final = 30.0


class HttpError(Exception):
    """There was no response; the message says why."""


class HttpTimeout(HttpError):
    """There was no response in time. The server may have handled the request."""


class HttpOrigin(NamedTuple):
    """Scheme, host and port of a URL: requests to the same origin share connections."""

    host: str
    port: int
    tls: bool

    def url(self, port: int | None = None) -> str:
        """Return the URL of the origin; with a port, that port instead."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{port or self.port}"


class HttpEndpoint(NamedTuple):
    """A URL to which requests are posted."""

    origin: HttpOrigin
    request_head: str
    """The request line and the Host header of every request."""


@functools.lru_cache(maxsize=4096)
def parse_endpoint(url: str) -> HttpEndpoint:
    """Return the endpoint of a valid http or https URL."""
    parts = urlsplit(url)
    host, tls = parts.hostname or "", parts.scheme == "https"
    default = 443 if tls else 80
    port = parts.port or default
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    authority = f"[{host}]" if ":" in host else host
    if port != default:
        authority = f"{authority}:{port}"
    return HttpEndpoint(HttpOrigin(host, port, tls), f"POST {target} HTTP/1.1\r\nhost: {authority}\r\n")


def encode_post(endpoint: HttpEndpoint, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return the bytes of a POST request."""
    lines = [endpoint.request_head]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.append(f"content-length: {len(body)}\r\n\r\n")
    return "".join(lines).encode("latin-1") + body


class HttpClient:
    """Posts requests to one URL."""

    def __init__(self, url: str, clock: Clock, timeout: float, addresses: tuple[str, ...] = ()) -> None:
        """Connect only to `addresses`, if given, instead of resolving the host."""
        self._endpoint = parse_endpoint(url)
        origin = self._endpoint.origin
        self.host = origin.host
        tls = ssl.create_default_context() if origin.tls else None
        self._connect = functools.partial(
            connect, ConnectionTarget(origin.url(), tls, origin.host, addresses=addresses)
        )
        self._pool = ConnectionPool(clock, idle_seconds=IDLE_SECONDS, max_idle=MAX_IDLE)
        self._timeout = timeout

    async def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        """Send a request and wait for its response; raises `HttpError`."""
        request = encode_post(self._endpoint, headers, body)
        try:
            return await self._pool.exchange(self._endpoint.origin, self._connect, request, self._timeout)
        except TimeoutError:
            raise HttpTimeout(f"{self.host} did not respond within {self._timeout:g} s") from None
        except socket.gaierror as error:
            raise HttpError(f"cannot resolve host {self.host}: {error.strerror}") from error
        except ssl.SSLCertVerificationError as error:
            raise HttpError(
                f"the certificate of {self.host} is not trusted: {error.verify_message}"
            ) from error
        except OSError as error:
            raise HttpError(f"cannot connect to {self.host}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
