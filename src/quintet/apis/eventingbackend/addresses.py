"""Decides to which addresses a backend may connect. Pure: the caller resolves names.

A namespace user names a server, and we connect to it from inside the cluster. They must not reach
through us what they cannot reach themselves: loopback, link-local addresses (where clouds serve
credentials) and the API server. The caller connects only to the addresses checked here and does not
resolve the name again, because a second DNS answer could differ from the first.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS: Final = {"nats": 4222, "tls": 4222, "http": 80, "https": 443}
REFUSED: Final = (
    ("0.0.0.0/8", "means this host"),
    ("127.0.0.0/8", "is a loopback address"),
    ("169.254.0.0/16", "is a link-local address"),
    ("224.0.0.0/4", "is a multicast address"),
    ("255.255.255.255/32", "is the broadcast address"),
    ("100.100.100.200/32", "hands out credentials of a cloud"),
    ("168.63.129.16/32", "hands out credentials of a cloud"),
    ("::/128", "means this host"),
    ("::1/128", "is a loopback address"),
    ("fe80::/10", "is a link-local address"),
    ("fd00:ec2::254/128", "hands out credentials of a cloud"),
    ("ff00::/8", "is a multicast address"),
)
"""Networks that are denied unless an administrator allows them."""

_IPV4_AT_THE_END = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""NAT64, local-use NAT64, and IPv4-compatible IPv6 addresses."""


class ServerEndpoint(NamedTuple):
    """Scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Denied networks, each with the reason, and the exceptions that are allowed."""

    refused: tuple[tuple[Network, str], ...]
    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(
        cls, *, api_server: Iterable[str] = (), refused: Iterable[str] = (), allowed: Iterable[str] = ()
    ) -> "NetworkLimits":
        """Return the default limits with the addresses of the API server and an administrator's additions.

        Raises `ValueError` with the text that is not an address or network.
        """
        added = (
            *((text, "is an address of the API server") for text in api_server),
            *((text, "is refused by the administrator") for text in refused),
        )
        networks = tuple((ipaddress.ip_network(text), reason) for text, reason in (*added, *REFUSED))
        return cls(networks, tuple(map(ipaddress.ip_network, allowed)))

    def refusal(self, address: str) -> str:
        """Return why an address is denied; empty if it is allowed."""
        try:
            given = ipaddress.ip_address(address)
        except ValueError:
            return f"'{address}' is not an address"
        # Check each form separately: an allowed outer address must not hide a denied IPv4 address inside it.
        for meant in _meant(given):
            if any(meant in network for network in self.allowed):
                continue
            for network, reason in self.refused:
                if meant in network:
                    return f"{address} {reason}"
        return ""


def find_refusal(host: str, addresses: Iterable[str], limits: NetworkLimits) -> str:
    """Return why a host with these addresses is denied; empty if it is allowed.

    One denied address is enough: a name with an allowed and a denied address is an attempt to evade.
    """
    found = list(addresses)
    if not found:
        return f"the name '{host}' has no address"
    refusals = [refusal for address in found if (refusal := limits.refusal(address))]
    if not refusals:
        return ""
    return (
        f"'{host}' must not be used as a backend: {'; '.join(refusals)}. "
        "Choose another server, or ask an administrator to allow the address."
    )


def parse_endpoint(url: str) -> ServerEndpoint:
    """Parse a URL; a `ValueError` never repeats it, because it may contain a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("the url cannot be read: check brackets and port") from None
    if parts.scheme not in PORTS:
        raise ValueError(f"the url must begin with one of {', '.join(f'{name}://' for name in PORTS)}")
    if not parts.hostname:
        raise ValueError("the url names no host")
    return ServerEndpoint(parts.scheme, parts.hostname, PORTS[parts.scheme] if port is None else port)


def _meant(address: Address) -> tuple[Address, ...]:
    """Yield the address and, if it embeds an IPv4 address, that one."""
    if isinstance(address, IPv4Address):
        return (address,)
    inside: list[Address] = [address]
    if address.ipv4_mapped is not None:
        inside.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        inside.append(address.sixtofour)
    if address.teredo is not None:
        inside += address.teredo
    if int(address) > 1 and any(address in network for network in _IPV4_AT_THE_END):
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return tuple(inside)
