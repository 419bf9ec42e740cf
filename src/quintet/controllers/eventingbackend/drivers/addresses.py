"""Resolves server names to permitted addresses.

Connections use these addresses and never resolve the name again: a second answer could differ.
"""

import asyncio
import socket

from quintet.apis.eventingbackend.addresses import NetworkLimits, find_refusal
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason

_SECONDS = 5.0


async def resolve_addresses(
    host: str, port: int, limits: NetworkLimits | None
) -> tuple[str, ...] | ProbeResult:
    """Return all addresses of a host, or a failed result if one is not within the limits."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return ProbeResult(Reason.UNRESOLVED, f"no DNS response for '{host}' in {_SECONDS:g} s")
    except (OSError, UnicodeError):
        text = f"the name '{host}' cannot be resolved: check it, and that its Service or DNS record exists"
        return ProbeResult(Reason.UNRESOLVED, text)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in found))
    refusal = find_refusal(host, addresses, limits) if limits is not None else ""
    return ProbeResult(Reason.ADDRESS_REFUSED, refusal) if refusal else addresses
