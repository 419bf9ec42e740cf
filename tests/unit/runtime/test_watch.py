"""Tests of a watch whose server fails for long, in virtual time."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from kit.clock import VirtualClock
from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource
from quintet.kube.client import ListMeta, Page
from quintet.kube.errors import ServerFault, Status, Unreachable
from quintet.runtime.cache import Store, Undecodable
from quintet.runtime.watch import Selection, Watch, WatchTimeouts

THINGS = Resource("example.com", "v1", "Thing", "things")


def an_object(name: str, version: int) -> JsonObject:
    return {"metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)}}


def event(kind: str, body: JsonObject) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode()


class Scripted:
    """A client for `Watch`: lists always work, and a test sets the streams."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.objects = [an_object("a", 5)]
        self.version = 5
        self.lists = self.streams = 0
        self.away = self.lists_fail = False
        self.lines: list[bytes] = []

    async def pages(self, resource: Resource, **_: Any) -> AsyncIterator[Page]:
        if self.away:
            raise Unreachable("away")
        if self.lists_fail:
            raise ServerFault("LIST", Status(code=500))
        self.lists += 1
        raw = tuple(msgspec.Raw(msgspec.json.encode(each)) for each in self.objects)
        yield Page(ListMeta(str(self.version)), raw)

    @contextlib.asynccontextmanager
    async def watch(self, resource: Resource, **_: Any) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        if self.away:
            raise Unreachable("away")
        self.streams += 1

        async def batches() -> AsyncIterator[list[bytes]]:
            if self.lines:
                yield self.lines
            else:
                await self.clock.sleep(300.0)

        yield batches()


class Place:
    """Return a watch that lists by pages, because its server has no WatchList."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = Scripted(self.clock)
        self.store: Store[Object] = Store()
        client: Any = self.server
        decode = msgspec.json.Decoder(Object).decode
        self.watch = Watch(client, Selection(THINGS, decode), self.store, self.clock, WatchTimeouts())
        self.watch._watch_list = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Place"]:
        task = asyncio.create_task(self.watch.run())
        await self.clock.advance(0.0)
        yield self
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


FAULT = event("ERROR", {"kind": "Status", "code": 500, "reason": "InternalError"})


@pytest.mark.parametrize(
    "line", [pytest.param(FAULT, id="an ERROR event"), pytest.param(b"{", id="invalid JSON")]
)
async def test_watch_lists_again_after_repeated_error_events(line):
    async with Place().running() as place:
        await place.clock.advance(10.0)
        place.server.lines = [line]
        place.server.objects, place.server.version = [an_object("b", 9)], 9
        await place.clock.advance(1200.0)
        assert [each.key.name for each in place.store] == ["b"], "the cache stayed wrong"


async def test_watch_with_only_errors_is_not_alive():
    async with Place().running() as place:
        await place.clock.advance(10.0)
        place.server.lines = [FAULT]
        place.server.lists_fail = True
        await place.clock.advance(1200.0)
        assert not place.watch.alive


async def test_quiet_watch_is_alive_and_lists_once():
    async with Place().running() as place:
        await place.clock.advance(3600.0)
        assert place.watch.alive
        assert place.server.lists == 1


async def test_watch_does_not_list_again_after_an_outage():
    async with Place().running() as place:
        await place.clock.advance(10.0)
        place.server.away = True
        await place.clock.advance(1000.0)
        place.server.away = False
        await place.clock.advance(60.0)
        assert place.server.lists == 1


@pytest.mark.parametrize("seconds", [20.0, 600.0])
async def test_watch_reconnects_within_seconds_after_a_long_outage(seconds):
    async with Place().running() as place:
        await place.clock.advance(310.0)  # the stream ends while the server is unreachable
        place.server.away = True
        await place.clock.advance(300.0 + seconds)
        place.server.away = False
        streams = place.server.streams
        await place.clock.advance(5.0)
        assert place.server.streams > streams


async def test_broken_stream_is_resumed_after_the_last_event():
    async with Place().running() as place:
        place.server.lines = [event("MODIFIED", an_object("a", 6)), event("DELETED", an_object("a", 7)), b"{"]
        await place.clock.advance(301.0)
        assert place.watch._resume_from == "7"


async def test_repeated_deletion_does_not_remove_a_newer_object():
    store: Store[Object] = Store()
    key = ObjectKey("ns", "a")
    store.put(Object(ObjectMeta(name="a", namespace="ns", resource_version="7")))
    store.remove(key, 6)
    assert store.get(key) is not None
    store.remove(key, 8)
    assert store.get(key) is None


def apply(store: Store[Object], kind: str, version: int) -> None:
    key = ObjectKey("ns", "a")
    match kind:
        case "good":
            store.put(Object(ObjectMeta(name="a", namespace="ns", resource_version=str(version))))
        case "broken":
            store.put_undecodable(Undecodable(key, version, "uid", "broken"))
        case "gone":
            store.remove(key, version)


@given(
    st.lists(st.sampled_from(["good", "broken", "gone"]), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_repeated_events_do_not_change_newer_objects(kinds, repeats):
    """The version of an event is its index; the last event wins, whatever is repeated."""
    kinds = [*kinds, "good"] if kinds[-1] == "gone" else kinds
    story = list(enumerate(kinds, 1))
    store: Store[Object] = Store()
    for version, kind in story:
        apply(store, kind, version)
    changes: list[object] = []
    store.subscribe(lambda old, new, initial: changes.append((old, new)))
    want = ([each.version for each in store], {key: item.version for key, item in store.undecodable.items()})
    for number in repeats:
        version, kind = story[number % len(story)]
        apply(store, kind, version)
    assert ([each.version for each in store], {k: i.version for k, i in store.undecodable.items()}) == want
    assert changes == []
