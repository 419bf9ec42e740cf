"""A cache for an OAuth2 access token: one fetch serves all waiting requests.

A token is renewed in the background before it expires, so that requests do not wait. After a failed fetch
there is a pause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from quintet.clock import Clock

PAUSE_AFTER_FAILURE: Final = 1.0
_MAX_MARGIN: Final = 60.0


class TokenError(Exception):
    """No token could be fetched; the message contains no credentials."""


class Token(msgspec.Struct, frozen=True):
    """A token and its validity in seconds."""

    value: str
    seconds: float

    def __repr__(self) -> str:
        return f"Token(valid for {self.seconds:g} s)"


class TokenCache:
    """The current token of one client."""

    def __init__(self, fetch: Callable[[], Awaitable[Token]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._value = ""
        self._renew_at = self._expires_at = 0.0
        self._failure: TokenError | None = None
        self._failed_at = 0.0
        self._fetching: asyncio.Task[None] | None = None

    @property
    def is_valid(self) -> bool:
        """Whether there is a token that has not expired."""
        return bool(self._value) and self._clock.monotonic() < self._expires_at

    async def current(self) -> str:
        """Return a valid token; raises `TokenError`."""
        now = self._clock.monotonic()
        if self.is_valid:
            if now >= self._renew_at:
                self._start(now)
            return self._value
        fetching = self._start(now)
        if fetching is not None:
            # Cancelling one waiter must not cancel the fetch for the others.
            await asyncio.shield(fetching)
        if self._failure is not None:
            raise TokenError(str(self._failure))
        return self._value

    def invalidate(self, value: str) -> None:
        """Discard a token that the server rejected, unless it was replaced in the meantime."""
        if value == self._value:
            self._value = ""

    async def close(self) -> None:
        """Stop fetching."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])

    def _start(self, now: float) -> asyncio.Task[None] | None:
        """Return the running fetch or start one; None during the pause after a failure."""
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
        margin = min(_MAX_MARGIN, token.seconds / 4)
        self._failure = None
        self._value = token.value
        self._expires_at = now + token.seconds - margin / 4
        self._renew_at = now + token.seconds - margin
