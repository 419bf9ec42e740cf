"""Several children at once, and which of their failures are told, and which are tried again."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from quintet.kube.errors import PASSING, Conflict, Forbidden, KubeError, NotFound, WriteFenced
from quintet.runtime.apply import ForeignObject
from quintet.runtime.ownership import Child

# With the delays of the queue these are some seconds.
_LASTING = 10


async def gather_children(*work: Awaitable[Child[Any]]) -> list[Child[Any] | Exception]:
    """All results and failures: one that fails does not keep the others from being made.

    Whoever may not write any more, or has a fault of his own, stops at once.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, WriteFenced) or not isinstance(result, Child | KubeError | ForeignObject):
            raise result
    return list(results)  # type: ignore[arg-type]  # all others were raised above


def is_blocked_by_others(error: Exception) -> bool:
    """Whether trying again soon is pointless: a foreign object has to go, or the namespace is going."""
    return isinstance(error, ForeignObject) or (isinstance(error, Forbidden) and error.namespace_terminating)


def is_transient(error: Exception, failures: int) -> bool:
    """Whether to say nothing yet, after so many failures in a row.

    Somebody else was faster, or the server is in trouble: no fault of a user's, unless it lasts.
    """
    return isinstance(error, (Conflict, NotFound, *PASSING)) and failures < _LASTING
