"""Fixtures of the tests that run many small stories on one event loop."""

import asyncio
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def fresh_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop that hypothesis can use again and again."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()
