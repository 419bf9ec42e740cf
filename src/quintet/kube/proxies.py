"""The proxy for a server from HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which are read as Go reads them."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def find_proxy(server: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy for a server; None to connect directly. Loopback needs no proxy."""
    try:
        url = urlsplit(server)
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return None  # an invalid port, which is reported elsewhere
    name = f"{url.scheme}_proxy"
    proxy = (environ.get(name.upper()) or environ.get(name) or "").strip()
    excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if not proxy or _is_loopback(host) or any(_matches(each, host, port) for each in excluded.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = _parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _matches(pattern: str, host: str, port: int) -> bool:
    """Return whether an entry of NO_PROXY (*, address, network or domain, also with a port) names a host."""
    pattern = pattern.strip().lower()
    if pattern == "*":
        return True
    address = _parse_address(host)
    if address is not None and "/" in pattern:
        try:
            return address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    name, colon, number = pattern.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.startswith("[")):
        if number != str(port):
            return False
        pattern = name
    pattern = pattern.strip("[]")
    if not pattern:
        return False
    if address is not None:
        return _parse_address(pattern) == address
    domain = pattern.removeprefix("*")
    # `example.com` is the domain and what is below it, `.example.com` only what is below it.
    return host == domain or host.endswith(domain if domain.startswith(".") else f".{domain}")


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
