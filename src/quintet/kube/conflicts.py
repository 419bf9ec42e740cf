"""Repeats a write that met another writer."""

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from quintet.clock import Clock
from quintet.kube.errors import Conflict

T = TypeVar("T")

_ATTEMPTS = 5
_FIRST_PAUSE = 0.01


async def retry_on_conflict(clock: Clock, write: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a write that reads the object first; repeat it up to four times after a 409.

    `write` must read the object again each time: a write of the same version conflicts for ever. The name of
    another object (`AlreadyExists`) is no conflict that a retry can resolve.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return await write()
        except Conflict as error:
            if type(error) is not Conflict:
                raise
        await clock.sleep(_FIRST_PAUSE * 2.0**attempt * random.uniform(0.5, 1.0))
    return await write()
