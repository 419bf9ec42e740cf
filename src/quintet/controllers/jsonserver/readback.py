"""Reads the served data back through the Service, where this process can reach it.

The only place of this controller that speaks to pods. It gives up early and takes no more
than the data can be: a pod is somebody else's program.
"""

from collections.abc import Awaitable, Callable

import aiohttp

ReadBack = Callable[[str], Awaitable[tuple[bytes | None, str]]]
"""From a URL to what it serves, or None and why not."""

_LIMIT = 4 * 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=3.0)


async def over_http(url: str) -> tuple[bytes | None, str]:
    """Ask the Service itself."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=False) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                return None, f"HTTP {answer.status}"
            body = await answer.content.read(_LIMIT)
            while chunk := await answer.content.read(_LIMIT):
                body += chunk
                if len(body) > _LIMIT:
                    return None, "the answer is larger than the data can be"
            return body, ""
    except TimeoutError:
        return None, "no answer in 3 s"
    except (aiohttp.ClientError, OSError) as error:
        return None, type(error).__name__
