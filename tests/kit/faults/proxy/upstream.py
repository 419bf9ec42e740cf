"""The API server behind the proxy and the identity of forwarded requests.

A client with its own token keeps its identity; a client without one, or with `PLACEHOLDER`, gets the identity of the
proxy's kubeconfig.
"""

from pathlib import Path

import aiohttp
from multidict import CIMultiDict

from kit.cluster.kubeconfig import Access

TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)
PLACEHOLDER = "the-identity-of-the-proxy"
"""Stands in kubeconfigs of the proxy, because kubectl asks for a user name where it sees no credentials."""
ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


class Upstream:
    """One session for clients with their own token and one with the kubeconfig's identity."""

    def __init__(self, kubeconfig: Path) -> None:
        access = Access.read(kubeconfig)
        self.server = access.server
        self._own, self._theirs = (
            access.session(
                identified=identified,
                timeout=TIMEOUT,
                auto_decompress=False,
                skip_auto_headers=ADDED_BY_AIOHTTP,  # only what the caller sent is passed on
            )
            for identified in (True, False)
        )

    def session(self, headers: CIMultiDict[str]) -> aiohttp.ClientSession:
        """Return the session for a request with these headers and remove the placeholder from them."""
        if headers.get("Authorization") == f"Bearer {PLACEHOLDER}":
            del headers["Authorization"]
        return self._theirs if "Authorization" in headers else self._own

    async def close(self) -> None:
        """Close both sessions."""
        await self._own.close()
        await self._theirs.close()
