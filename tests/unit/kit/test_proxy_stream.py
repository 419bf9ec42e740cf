"""The order in which a watch sends held lines."""

import asyncio
import json
from typing import Any

from kit.faults.proxy.faults import GoneEvent
from kit.faults.proxy.requests import Request, anything
from kit.faults.proxy.stream import Hold, WatchStream


class Client:
    """What the client of a watch has read."""

    def __init__(self) -> None:
        self.read: list[dict[str, Any]] = []

    async def write(self, data: bytes) -> None:
        self.read.append(json.loads(data))


def line(number: int) -> bytes:
    obj = {"metadata": {"name": "a", "resourceVersion": str(number)}}
    return json.dumps({"type": "MODIFIED", "object": obj}).encode()


async def read_lines(*, fault_before_release: bool = False) -> list[Any]:
    """Return what a client reads of two held lines and one that arrives at their release."""
    hold, client = Hold(anything, None, None, lambda obj: True), Client()
    stream = WatchStream(Request(verb="watch", query={}), client, [hold])  # type: ignore[arg-type]
    gate, more = asyncio.Event(), asyncio.Event()

    async def lines():
        yield line(1)
        yield line(2)
        await gate.wait()
        if fault_before_release:
            stream.put(GoneEvent())
        yield line(3)
        # The pump has queued the line, and no one has read it yet.
        hold.release()
        await more.wait()

    running = asyncio.create_task(stream.run(lines()))
    await hold.caught()
    gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    more.set()
    await running
    return [
        each["object"].get("code") or int(each["object"]["metadata"]["resourceVersion"])
        for each in client.read
    ]


async def test_held_lines_are_sent_before_later_lines():
    assert await read_lines() == [1, 2, 3]


async def test_fault_queued_before_release_comes_first():
    assert await read_lines(fault_before_release=True) == [410]
