"""Results of writing several children, and how to handle their errors."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from quintet.kube.errors import TRANSIENT, Conflict, Forbidden, KubeError, NotFound, WriteFenced
from quintet.runtime.apply import ForeignObject
from quintet.runtime.ownership import Child

# Failures in a row before an error is reported: a few seconds with the queue's backoff.
_LASTING = 10


async def gather_children(*work: Awaitable[Child[Any]]) -> list[Child[Any] | Exception]:
    """Wait for all writes and return children and errors: one failure does not stop the others.

    A lost lease or an unexpected exception is raised.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, WriteFenced) or not isinstance(result, Child | KubeError | ForeignObject):
            raise result
    return list(results)  # type: ignore[arg-type]  # all others were raised above


def is_blocked_by_others(error: Exception) -> bool:
    """Return whether a retry is pointless: a foreign object exists, or the namespace is terminating."""
    return isinstance(error, ForeignObject) or (isinstance(error, Forbidden) and error.namespace_terminating)


def is_transient(error: Exception, failures: int) -> bool:
    """Return whether an error is not reported yet, after so many failures in a row.

    Conflicts and server errors are not the user's fault, unless they last.
    """
    return isinstance(error, (Conflict, NotFound, *TRANSIENT)) and failures < _LASTING
