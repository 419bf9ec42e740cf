"""From the name of a server to addresses that may be connected to.

Called by drivers. Whoever connects afterwards uses these addresses and never resolves the name
again, or a second answer could lead where the first was not allowed to.
"""

import asyncio
import socket

from quintet.apis.eventingbackend.addresses import Limits, judge
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason

_SECONDS = 5.0


async def resolve_addresses(host: str, port: int, limits: Limits | None) -> tuple[str, ...] | ProbeResult:
    """All addresses of a host, each of them allowed; or why there are none. None: nothing is refused."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_SECONDS):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return ProbeResult(
            reason=Reason.UNRESOLVED, message=f"no answer about the name '{host}' in {_SECONDS:g} s"
        )
    except (OSError, UnicodeError):
        text = f"the name '{host}' has no address: check it, and that its Service or DNS entry exists"
        return ProbeResult(reason=Reason.UNRESOLVED, message=text)
    addresses = tuple(dict.fromkeys(str(address[0]) for *_, address in found))
    refusal = judge(host, addresses, limits) if limits is not None else ""
    return ProbeResult(reason=Reason.ADDRESS_REFUSED, message=refusal) if refusal else addresses
