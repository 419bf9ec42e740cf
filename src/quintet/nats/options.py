"""Where to connect to, as whom, and how patiently. Read by `client` and `dial`."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from quintet.nats.credentials import Credentials
from quintet.nats.errors import Unreachable

PORT = 4222


@dataclass(frozen=True, slots=True)
class Options:
    """How a client connects."""

    url: str
    credentials: Credentials | None = None
    name: str = ""
    max_reconnects: int = -1
    """Tries in a row after which a lost connection is given up; negative: never."""
    reconnect_seconds: float = 3.0
    """The longest wait between two tries; the first ones come sooner."""
    connect_seconds: float = 5.0
    addresses: tuple[str, ...] = ()
    """Connect to these only, instead of resolving the host; TLS still verifies the host of the URL."""
    ping_seconds: float = 20.0
    """A connection on which two of our pings stay unanswered is given up."""
    most_waiting: int = 8 << 20
    """Bytes that may wait to be sent; beyond that, publishing is refused."""

    @property
    def host(self) -> str:
        """The host name or address of the URL."""
        return _parts(self.url)[0]

    @property
    def port(self) -> int:
        """The port of the URL."""
        return _parts(self.url)[1]

    @property
    def place(self) -> str:
        """Host and port, for people; never a password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def tls(self) -> bool:
        """Whether the URL asks for TLS; a server may ask for it, too."""
        return self.url.startswith("tls://")


def _parts(url: str) -> tuple[str, int]:
    try:
        split = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = split.hostname, split.port
    except ValueError as error:
        raise Unreachable(f"the url is not valid: {error}") from error
    if not host or split.scheme not in ("nats", "tls"):
        raise Unreachable("the url must be nats://host:port or tls://host:port")
    return host, port or PORT
