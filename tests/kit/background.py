"""Work that runs in the background of a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def run_in_background(*works: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run coroutines while inside, then cancel them; their results and errors are ignored."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
