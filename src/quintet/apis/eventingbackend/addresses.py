"""Which addresses a backend may be at. Pure: names are resolved by whoever asks.

A user of a namespace names a server and we connect to it from inside the cluster, so they must not
reach through us what they cannot reach themselves: loopback, link-local (where clouds hand out
credentials) and the API server. The caller connects to the very addresses that were judged here and
never resolves the name again, or a second answer could differ from the first.
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
"""What is refused unless an administrator allows it."""

_IPV4_AT_THE_END = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96")))
"""NAT64, NAT64 of one's own, and the old form of an IPv4 address."""


class ServerEndpoint(NamedTuple):
    """Where a url leads."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Which networks are refused, each with the reason, and which are allowed nevertheless."""

    refused: tuple[tuple[Network, str], ...]
    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(
        cls, *, api_server: Iterable[str] = (), refused: Iterable[str] = (), allowed: Iterable[str] = ()
    ) -> "NetworkLimits":
        """The usual limits, the addresses of the API server, and what an administrator adds.

        Raises `ValueError`, with the text that is no address or network.
        """
        added = (
            *((text, "is an address of the API server") for text in api_server),
            *((text, "is refused by the administrator") for text in refused),
        )
        networks = tuple((ipaddress.ip_network(text), reason) for text, reason in (*added, *REFUSED))
        return cls(networks, tuple(map(ipaddress.ip_network, allowed)))

    def refusal(self, address: str) -> str:
        """Why an address is refused, in words; empty if it is not."""
        try:
            given = ipaddress.ip_address(address)
        except ValueError:
            return f"'{address}' is not an address"
        # Each form by itself: one that is allowed must not vouch for another that is hidden behind it.
        for meant in _meant(given):
            if any(meant in network for network in self.allowed):
                continue
            for network, reason in self.refused:
                if meant in network:
                    return f"{address} {reason}"
        return ""


def find_refusal(host: str, addresses: Iterable[str], limits: NetworkLimits) -> str:
    """Why nobody may connect to a host that was resolved to these addresses; empty if they may.

    One refused address is enough: a name with a good and a bad address is made to slip through.
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
    """Scheme, host and port of a url; raises `ValueError`, which never repeats it: it may hold a password."""
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
    """The address, and the IPv4 address inside it if it is a way to write or to reach one."""
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
