"""Options of a NATS client: server, credentials, timeouts and limits."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from quintet.nats.credentials import NatsCredentials
from quintet.nats.errors import ServerUnreachable

PORT = 4222


@dataclass(frozen=True, slots=True)
class NatsOptions:
    """How a client connects."""

    url: str
    credentials: NatsCredentials | None = None
    name: str = ""
    max_reconnects: int = -1
    """Failed attempts in a row after which the client gives up; negative: never."""
    reconnect_seconds: float = 3.0
    """The longest wait between two attempts; the first ones are shorter."""
    connect_seconds: float = 5.0
    addresses: tuple[str, ...] = ()
    """Connect only to these instead of resolving the host; TLS still verifies the host of the URL."""
    ping_seconds: float = 20.0
    """The interval of pings; after two without a PONG the connection counts as lost."""
    max_pending_bytes: int = 8 << 20
    """Bytes waiting to be sent; beyond that, publishing raises `Overloaded`."""

    @property
    def host(self) -> str:
        """The host name or address of the URL."""
        return _parts(self.url)[0]

    @property
    def port(self) -> int:
        """The port of the URL."""
        return _parts(self.url)[1]

    @property
    def address(self) -> str:
        """Host and port for messages, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def tls(self) -> bool:
        """Whether the URL requires TLS; the server may require it too."""
        return self.url.startswith("tls://")


def _parts(url: str) -> tuple[str, int]:
    try:
        split = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise ServerUnreachable(f"the URL is not valid: {error}") from error
    if not host or split.scheme not in ("nats", "tls"):
        raise ServerUnreachable("the URL must be nats://host:port or tls://host:port")
    return host, port or PORT
