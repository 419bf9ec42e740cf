"""Access tokens of OAuth2: kept while they are good, fetched once for all who wait.

Used by the publisher proxy for EventMesh. How a token is fetched is handed in. A token is renewed
while the old one still serves, so nobody waits for it; a failed fetch is not repeated at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from quintet.clock import Clock

PAUSE_AFTER_FAILURE: Final = 1.0
_LONGEST_MARGIN: Final = 60.0


class TokenError(Exception):
    """No token could be had; says why, without any credential."""


class Token(msgspec.Struct, frozen=True):
    """One token and for how many seconds it is good."""

    value: str
    seconds: float

    def __repr__(self) -> str:
        return f"Token(good for {self.seconds:g} s)"


class Tokens:
    """The present token of one login."""

    def __init__(self, fetch: Callable[[], Awaitable[Token]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._value = ""
        self._renew_at = self._ends_at = 0.0
        self._failure: TokenError | None = None
        self._failed_at = 0.0
        self._fetching: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Whether there is a token that is good now."""
        return bool(self._value) and self._clock.monotonic() < self._ends_at

    async def current(self) -> str:
        """A token that is good now; raises `TokenError`."""
        now = self._clock.monotonic()
        if self.held:
            if now >= self._renew_at:
                self._start(now)
            return self._value
        fetching = self._start(now)
        if fetching is not None:
            # One who gives up waiting must not take the fetch away from the others.
            await asyncio.shield(fetching)
        if self._failure is not None:
            raise TokenError(str(self._failure))
        return self._value

    def refused(self, value: str) -> None:
        """Say that a token was not taken; one that was fetched since stays."""
        if value == self._value:
            self._value = ""

    async def close(self) -> None:
        """Stop fetching."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    def _start(self, now: float) -> asyncio.Task[None] | None:
        """The fetch under way, or a new one; None while the last failure is too fresh."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if self._failure is not None and now - self._failed_at < PAUSE_AFTER_FAILURE:
            return None
        self._fetching = asyncio.create_task(self._renew())
        return self._fetching

    async def _renew(self) -> None:
        try:
            token = await self._fetch()
        except TokenError as error:
            self._failure, self._failed_at = error, self._clock.monotonic()
            return
        now = self._clock.monotonic()
        margin = min(_LONGEST_MARGIN, token.seconds / 4)
        self._failure = None
        self._value = token.value
        self._ends_at = now + token.seconds - margin / 4
        self._renew_at = now + token.seconds - margin
