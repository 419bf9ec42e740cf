"""An event loop for property tests."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def fresh_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Return an event loop that all examples of a property test share."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()
