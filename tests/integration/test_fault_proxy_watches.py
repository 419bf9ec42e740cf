"""The fault proxy relays watches unchanged and applies each fault to them."""

import asyncio
import json

import aiohttp
import pytest

from kit.cluster.objects import a_configmap
from kit.cluster.watches import Watch, open_watch
from kit.eventually import eventually_true
from kit.faults.proxy import Before, CutMidLine, GoneEvent, Stall, matching

# Kubernetes creates a ConfigMap in every namespace at some time.
OURS = {"labelSelector": "made-by=test"}
WATCH_LIST = {
    "watch": "true",
    "sendInitialEvents": "true",
    "allowWatchBookmarks": "true",
    "resourceVersionMatch": "NotOlderThan",
}


@pytest.fixture
def configmaps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_large_objects_pass_through_proxy_in_both_directions(proxied, configmaps):
    text = "x" * 900_000
    await proxied.create(configmaps, a_configmap("large", text=text))
    async with open_watch(proxied, configmaps, version="0", **OURS) as watch:
        chunks = b""
        while not chunks.endswith(b"\n"):
            chunks += await watch.answer.content.readany()
    assert json.loads(chunks)["object"]["data"]["text"] == text


async def test_watch_list_is_relayed_line_by_line(proxied, api, configmaps):
    await api.create(configmaps, a_configmap("first"))
    async with proxied.session.get(proxied.server + configmaps, params=WATCH_LIST | OURS) as answer:
        watch = Watch(answer)
        names = []
        while (event := await watch.event())["type"] != "BOOKMARK":
            names.append(event["object"]["metadata"]["name"])
        assert "first" in names
        await api.create(configmaps, a_configmap("second"))
        assert await watch.names(1) == [("ADDED", "second")]


async def test_stalled_watch_is_silent_and_loses_nothing(proxy, proxied, api, configmaps):
    async with open_watch(proxied, configmaps, **OURS) as watch:
        await api.create(configmaps, a_configmap("before"))
        assert await watch.names(1) == [("ADDED", "before")]
        stall = Stall()
        assert proxy.disturb(stall, matching("watch", "configmaps")) == 1
        await api.create(configmaps, a_configmap("during"))
        with pytest.raises(TimeoutError):
            await watch.line(within=0.3)
        stall.release()
        assert await watch.names(1) == [("ADDED", "during")]


async def test_gone_event_ends_running_watch_with_410(proxy, proxied, configmaps):
    async with open_watch(proxied, configmaps, **OURS) as watch:
        proxy.disturb(GoneEvent())
        event = await watch.event()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert await watch.line() == b"", "the stream ends cleanly"


async def test_gone_event_can_follow_lines_of_next_watch(proxy, proxied, api, configmaps):
    proxy.inject(GoneEvent(after=1), when=matching("watch", "configmaps"))
    async with open_watch(proxied, configmaps, **OURS) as watch:
        await api.create(configmaps, a_configmap("a"))
        assert await watch.names(1) == [("ADDED", "a")]
        assert (await watch.event())["type"] == "ERROR"


async def test_cut_watch_ends_in_middle_of_line(proxy, proxied, api, configmaps):
    proxy.inject(CutMidLine(after=1), when=matching("watch"))
    async with open_watch(proxied, configmaps, **OURS) as watch:
        await api.create(configmaps, a_configmap("whole"))
        assert await watch.names(1) == [("ADDED", "whole")]
        # Data sent before a reset is lost to a client that reads later.
        reading = asyncio.create_task(watch.rest())
        await api.create(configmaps, a_configmap("half"))
        seen, error = await reading
        assert seen.startswith(b'{"type":"ADDED"')
        assert b"\n" not in seen
        assert isinstance(error, aiohttp.ClientError)


async def test_held_lines_are_sent_on_release_and_others_pass(proxy, proxied, api, configmaps):
    hold = proxy.hold("configmaps", name="hidden")
    async with open_watch(proxied, configmaps, **OURS) as watch:
        await api.create(configmaps, a_configmap("hidden", v="1"))
        await api.create(configmaps, a_configmap("open"))
        assert await watch.names(1) == [("ADDED", "open")]
        await hold.caught()
        await api.merge(f"{configmaps}/hidden", {"data": {"v": "2"}})
        await eventually_true(lambda: len(hold.held) == 2)
        hold.release()
        assert await watch.names(2) == [("ADDED", "hidden"), ("MODIFIED", "hidden")]


async def test_bookmarks_do_not_overtake_held_lines(proxy, proxied, api, configmaps):
    hold = proxy.hold("configmaps", name="hidden")
    await api.create(configmaps, a_configmap("hidden"))
    async with proxied.session.get(proxied.server + configmaps, params=WATCH_LIST | OURS) as answer:
        await eventually_true(lambda: [event["type"] for _, event, _ in hold.held] == ["ADDED", "BOOKMARK"])
        await api.create(configmaps, a_configmap("open"))
        watch = Watch(answer)
        assert await watch.names(1) == [("ADDED", "open")]
        hold.release()
        assert await watch.names(1) == [("ADDED", "hidden")]
        assert (await watch.event())["type"] == "BOOKMARK"


async def test_hold_can_release_only_last_state_of_each_object(proxy, proxied, api, configmaps):
    hold = proxy.hold("configmaps")
    await api.create(configmaps, a_configmap("old"))
    async with open_watch(proxied, configmaps, **OURS) as watch:
        await api.create(configmaps, a_configmap("short-lived"))
        await api.delete(f"{configmaps}/short-lived")
        await api.create(configmaps, a_configmap("new", v="1"))
        await api.merge(f"{configmaps}/new", {"data": {"v": "2"}})
        await api.delete(f"{configmaps}/old")
        await api.create(configmaps, a_configmap("old"))
        await eventually_true(lambda: len(hold.held) == 6)
        hold.release(only_last=True)
        events = [await watch.event() for _ in range(2)]
        assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
            ("ADDED", "new"),
            ("MODIFIED", "old"),
        ]
        assert events[0]["object"]["data"] == {"v": "2"}


async def test_outage_breaks_watches_and_refuses_requests_until_it_ends(proxy, proxied, api, configmaps):
    async with open_watch(proxied, configmaps, **OURS) as watch:
        async with proxy.outage() as outage:
            with pytest.raises(aiohttp.ClientError):
                await watch.line()
            for _ in range(3):
                with pytest.raises(aiohttp.ClientError):
                    await proxied.create(configmaps, a_configmap("a"))
            assert len(outage.hits) == 3
        await proxied.create(configmaps, a_configmap("a"))


async def test_watch_requested_before_outage_does_not_open_during_it(proxy, proxied, configmaps):
    arrives = asyncio.Event()
    asked = proxy.inject(Before(arrives.wait), when=matching("watch"))

    async def watched() -> bytes:
        async with open_watch(proxied, configmaps, **OURS) as watch:
            return await watch.line()

    opening = asyncio.create_task(watched())
    await asked.hit()
    async with proxy.outage():
        arrives.set()
        with pytest.raises(aiohttp.ClientError):
            await opening
    assert proxy.watches == []


async def test_disconnected_client_ends_its_watch(proxy, proxied, configmaps):
    async with open_watch(proxied, configmaps, **OURS):
        assert len(proxy.watches) == 1
    await eventually_true(lambda: not proxy.watches)
