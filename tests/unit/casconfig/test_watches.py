"""Watches of targets whose API server does not behave like Kubernetes' own."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import msgspec
import pytest

from kit.clock import VirtualClock
from quintet.apis.meta import ObjectKey, Resource
from quintet.controllers.casconfig.watches import RESTART_SECONDS, Watches, WatchScope
from quintet.kube.client import ListMeta, Page
from quintet.kube.errors import BadRequest, Status
from quintet.runtime.queue import WorkQueue

CONFIG = ObjectKey("shop", "one")
ACCOUNT = ObjectKey("shop", "casconfig")
THINGS = Resource("example.com", "v1", "Thing", "things")
OTHERS = Resource("example.com", "v1", "Other", "others")
KEY = ObjectKey("shop", "a")


def an_object(version, **labels):
    return {"metadata": {"name": "a", "namespace": "shop", "resourceVersion": version, "labels": labels}}


class Server:
    """Lists one object per type; tests add events to `events` and errors to `broken`."""

    def __init__(self, clock):
        self.clock = clock
        self.listed = {THINGS: ("x-1", "list-1"), OTHERS: ("5", "6")}
        self.events = {THINGS: [], OTHERS: []}
        self.broken = {}
        self.resumed = []

    def impersonate(self, account):
        return self

    async def pages(self, resource, **_):
        if resource in self.broken:
            raise self.broken[resource]
        item, version = self.listed[resource]
        yield Page(ListMeta(version), (msgspec.Raw(msgspec.json.encode(an_object(item))),))

    @contextlib.asynccontextmanager
    async def watch(self, resource, *, resource_version, **_) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        if not resource_version:
            raise BadRequest("WATCH", Status(code=400))  # no WatchList
        self.resumed.append(resource_version)

        async def batches():
            for kind, body in self.events[resource]:
                yield [json.dumps({"type": kind, "object": body}).encode()]
            self.events[resource] = []
            await self.clock.sleep(300.0)

        yield batches()


@pytest.fixture
async def clock():
    return VirtualClock()


@pytest.fixture
async def server(clock):
    return Server(clock)


@pytest.fixture
async def watches(clock, server):
    watches = Watches(server, clock, WorkQueue("test", clock))
    running = asyncio.create_task(watches.run())
    yield watches
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def a_scope(resource):
    return WatchScope(ACCOUNT, resource, "shop", True)


async def test_objects_with_opaque_versions_are_followed_and_resumed(watches, server, clock):
    scope = a_scope(THINGS)
    active = watches.set_scopes(CONFIG, [scope])[scope]
    server.events[THINGS] = [
        ("MODIFIED", an_object("x-3", at="3")),
        ("MODIFIED", an_object("x-2", at="2")),
        ("BOOKMARK", {"metadata": {"resourceVersion": "mark"}}),
    ]
    await clock.advance(10.0)
    assert active.ready
    seen = active.store.get(KEY).decode()["metadata"]
    assert (seen["resourceVersion"], seen["labels"]) == ("x-2", {"at": "2"})
    await clock.advance(310.0)
    assert server.resumed == ["list-1", "mark"]
    server.events[THINGS] = [("DELETED", an_object("x-0"))]
    await clock.advance(310.0)
    assert active.store.get(KEY) is None


async def test_response_with_an_opaque_version_does_not_replace_what_the_watch_has_seen(
    watches, server, clock
):
    scope = a_scope(THINGS)
    active = watches.set_scopes(CONFIG, [scope])[scope]
    await clock.advance(10.0)
    watches.record_write(scope, an_object("x-9", late="yes"))
    assert active.store.get(KEY).resource_version == "x-1"


async def test_unexpected_error_of_one_watch_is_reported_and_ends_no_other(watches, server, clock):
    server.broken[THINGS] = ValueError("nobody expects this")
    things, others = a_scope(THINGS), a_scope(OTHERS)
    found = watches.set_scopes(CONFIG, [things, others])
    await clock.advance(1.0)
    assert str(found[things].error) == "nobody expects this"
    assert not found[things].is_refused
    server.events[OTHERS] = [("MODIFIED", an_object("7", at="7"))]
    await clock.advance(310.0)
    assert found[others].ready
    assert found[others].store.get(KEY).resource_version == "7"
    server.broken.clear()
    await clock.advance(RESTART_SECONDS)
    assert found[things].ready
