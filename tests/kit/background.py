"""Something that goes on beside a test for as long as the test needs it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def meanwhile(*works: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Let these go on while inside, and end them; how they end says nothing about the test."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
