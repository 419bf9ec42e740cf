"""Several children at once: one that fails does not keep the others from being made."""

import asyncio
from collections.abc import Awaitable
from typing import Any

from quintet.kube.errors import Forbidden, KubeError, WriteFenced
from quintet.runtime.apply import ForeignObject
from quintet.runtime.ownership import Child


async def settled(*work: Awaitable[Child[Any]]) -> list[Child[Any] | Exception]:
    """All results and failures. Whoever may not write any more, or has a fault of his own, stops at once."""
    results = await asyncio.gather(*work, return_exceptions=True)
    for result in results:
        if isinstance(result, WriteFenced) or not isinstance(result, Child | KubeError | ForeignObject):
            raise result
    return list(results)  # type: ignore[arg-type]  # all others were raised above


def waits_for_others(error: Exception) -> bool:
    """Whether trying again soon is pointless: a foreign object has to go, or the namespace is going."""
    return isinstance(error, ForeignObject) or (isinstance(error, Forbidden) and error.namespace_terminating)
