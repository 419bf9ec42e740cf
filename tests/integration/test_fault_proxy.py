"""Each fault of the proxy does what it says, on a real API server."""

import asyncio
import json
import signal
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kit.api import Api, RefusedError
from kit.eventually import eventually_true
from kit.proxy import (
    Answer,
    Before,
    CutMidLine,
    Delay,
    DropReply,
    GoneEvent,
    KillAfterCommit,
    KillBefore,
    Refuse,
    Stall,
    changes_state,
    matching,
)


@pytest.fixture
async def client(proxy, tmp_path):
    """A client that reaches the API server through the proxy only."""
    async with Api.connect(proxy.write_kubeconfig(tmp_path)) as connected:
        yield connected


@pytest.fixture
def configmaps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


def a_configmap(name, **data):
    return {"metadata": {"name": name, "labels": {"made-by": "test"}}, "data": data}


async def exists(api, path):
    async with api.session.get(api.server + path) as answer:
        assert answer.status in (200, 404), await answer.text()
        return answer.status == 200


class Watch:
    """A watch as a client sees it: whole lines, and how it ended."""

    def __init__(self, answer):
        self.answer = answer

    async def line(self, within=10):
        async with asyncio.timeout(within):
            return await self.answer.content.readline()

    async def event(self, within=10):
        return json.loads(await self.line(within))

    async def rest(self):
        """All bytes until the end, and the error that it ended with."""
        seen = b""
        try:
            while chunk := await self.answer.content.readany():
                seen += chunk
        except aiohttp.ClientError as error:
            return seen, error
        return seen, None

    async def names(self, count):
        return [
            (e["type"], e["object"]["metadata"]["name"]) for e in [await self.event() for _ in range(count)]
        ]


@asynccontextmanager
async def watching(api, path, version=None, **query):
    version = version or (await api.get(path))["metadata"]["resourceVersion"]
    # Kubernetes puts a ConfigMap of its own into every namespace, at a time of its own.
    params = {"watch": "true", "resourceVersion": version, "labelSelector": "made-by=test", **query}
    async with api.session.get(api.server + path, params=params) as answer:
        assert answer.status == 200
        yield Watch(answer)


async def test_everything_is_recorded_with_its_meaning(proxy, client, api, configmaps, namespace):
    await client.create(configmaps, a_configmap("a"))
    await client.merge(f"{configmaps}/a", {"data": {"k": "1"}})
    applied = a_configmap("b") | {"apiVersion": "v1", "kind": "ConfigMap"}
    stored = await client.apply(f"{configmaps}/b", applied, manager="test")
    await client.get(f"{configmaps}/b")
    await client.delete(f"{configmaps}/a")
    await client.delete(configmaps)
    await client.get("/version")
    seen = [str(exchange.request) for exchange in proxy.trace]
    assert seen == [
        f"create configmaps {namespace}",
        f"patch configmaps {namespace}/a",
        f"apply configmaps {namespace}/b",
        f"get configmaps {namespace}/b",
        f"delete configmaps {namespace}/a",
        f"deletecollection configmaps {namespace}",
        "get /version",
    ]
    assert [exchange.status for exchange in proxy.trace] == [201, 200, 201, 200, 200, 200, 200]
    assert [exchange.write for exchange in proxy.trace.writes()] == [1, 2, 3, 4, 5]
    third = proxy.trace.writes()[2]
    assert third.body == applied
    assert third.resource_version == stored["metadata"]["resourceVersion"]


async def test_leases_dry_runs_and_questions_are_recorded_but_not_numbered(
    proxy, client, configmaps, namespace
):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    await client.create(leases, {"metadata": {"name": "leader"}})
    await client.create(configmaps, a_configmap("a"), dryRun="All")
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    await client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    await client.create(configmaps, a_configmap("a"))
    assert [(e.request.resource, e.write) for e in proxy.trace] == [
        ("leases", None),
        ("configmaps", None),
        ("selfsubjectaccessreviews", None),
        ("configmaps", 1),
    ]


async def test_a_caller_with_a_token_speaks_for_itself(proxy, api, namespace, tmp_path):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "nobody"}})
    token = (await api.create(f"{accounts}/nobody/token", {"spec": {}}))["status"]["token"]
    async with Api.connect(proxy.write_kubeconfig(tmp_path, token=token)) as nobody:
        with pytest.raises(RefusedError, match=f"system:serviceaccount:{namespace}:nobody") as refused:
            await nobody.get(f"/api/v1/namespaces/{namespace}/secrets")
    assert refused.value.code == 403


async def test_large_objects_pass_in_both_directions(client, configmaps):
    text = "x" * 900_000
    await client.create(configmaps, a_configmap("large", text=text))
    async with watching(client, configmaps, version="0") as watch:
        chunks = b""
        while not chunks.endswith(b"\n"):
            chunks += await watch.answer.content.readany()
    assert json.loads(chunks)["object"]["data"]["text"] == text


async def test_watch_list_flows_line_by_line(client, api, configmaps):
    await api.create(configmaps, a_configmap("first"))
    options = {
        "sendInitialEvents": "true",
        "allowWatchBookmarks": "true",
        "resourceVersionMatch": "NotOlderThan",
    }
    async with client.session.get(client.server + configmaps, params={"watch": "1", **options}) as answer:
        watch = Watch(answer)
        names = []
        while (event := await watch.event())["type"] != "BOOKMARK":
            names.append(event["object"]["metadata"]["name"])
        assert "first" in names
        await api.create(configmaps, a_configmap("second"))
        assert await watch.names(1) == [("ADDED", "second")]


async def test_kill_before_leaves_the_server_untouched(proxy, client, api, configmaps):
    killed = []
    proxy.inject(KillBefore(lambda: killed.append("operator")), at_write=2)
    await client.create(configmaps, a_configmap("a"))
    with pytest.raises(aiohttp.ClientError):
        await client.create(configmaps, a_configmap("b"))
    assert killed == ["operator"]
    assert await exists(api, f"{configmaps}/a")
    assert not await exists(api, f"{configmaps}/b")


async def test_kill_after_commit_leaves_the_write_behind(proxy, client, api, configmaps):
    killed = []
    proxy.inject(KillAfterCommit(lambda: killed.append(proxy.trace.writes()[-1].status)), at_write=1)
    with pytest.raises(aiohttp.ClientError):
        await client.create(configmaps, a_configmap("a"))
    assert killed == [201], "killed only after the server's answer"
    assert await exists(api, f"{configmaps}/a")


async def test_a_real_process_dies_between_its_write_and_the_answer(
    proxy, api, cluster, configmaps, namespace, tmp_path
):
    kubeconfig = proxy.write_kubeconfig(tmp_path)
    process = await asyncio.create_subprocess_exec(
        cluster.programs / "kubectl",
        f"--kubeconfig={kubeconfig}",
        "-n",
        namespace,
        "create",
        "configmap",
        "a",
    )
    injection = proxy.inject(KillAfterCommit(process.kill), at_write=1)
    assert await process.wait() == -signal.SIGKILL
    assert (await injection.hit()).request.resource == "configmaps"
    assert await exists(api, f"{configmaps}/a")


async def test_a_dropped_reply_is_committed_and_the_retry_conflicts(proxy, client, configmaps):
    proxy.inject(DropReply(), when=matching("create", "configmaps"))
    with pytest.raises(aiohttp.ClientError):
        await client.create(configmaps, a_configmap("a"))
    with pytest.raises(RefusedError) as refused:
        await client.create(configmaps, a_configmap("a"))
    assert refused.value.status["reason"] == "AlreadyExists"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(409, "Conflict"),
        Answer(410, "Expired"),
        Answer(429, "TooManyRequests", retry_after=1),
        Answer(500, "InternalError"),
        Answer(503, "ServiceUnavailable", retry_after=2),
        Answer(504, "Timeout"),
    ],
    ids=lambda answer: f"{answer.code} {answer.reason}",
)
async def test_answers_are_given_as_status_objects_so_many_times(proxy, client, api, configmaps, answer):
    injection = proxy.inject(answer, when=changes_state, times=2)
    for _ in range(2):
        async with client.session.post(client.server + configmaps, json=a_configmap("a")) as reply:
            status = await reply.json()
            assert reply.headers.get("Retry-After") == (answer.retry_after and str(answer.retry_after))
        assert (reply.status, status["kind"], status["reason"]) == (answer.code, "Status", answer.reason)
    assert not await exists(api, f"{configmaps}/a")
    await client.create(configmaps, a_configmap("a"))
    assert len(injection.hits) == 2


async def test_refused_requests_never_arrive(proxy, client, api, configmaps):
    proxy.inject(Refuse(), when=matching("create"))
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.create(configmaps, a_configmap("a"))
    assert not await exists(api, f"{configmaps}/a")


async def test_delayed_requests_arrive_late(proxy, client, configmaps):
    injection = proxy.inject(Delay(1.0), when=matching("create"))
    delayed = asyncio.create_task(client.create(configmaps, a_configmap("sent-first")))
    await injection.hit()
    overtaking = await client.create(configmaps, a_configmap("sent-second"))
    versions = [int(stored["metadata"]["resourceVersion"]) for stored in (overtaking, await delayed)]
    assert versions == sorted(versions)


async def test_somebody_else_can_act_first_and_cause_a_real_conflict(proxy, client, api, configmaps):
    stored = await client.create(configmaps, a_configmap("a"))

    async def change():
        await api.merge(f"{configmaps}/a", {"data": {"by": "somebody else"}})

    proxy.inject(Before(change), when=matching("update"))
    with pytest.raises(RefusedError) as refused:
        await client.update(f"{configmaps}/a", stored)
    assert refused.value.status["reason"] == "Conflict"


async def test_a_stalled_request_waits_until_released(proxy, client, api, configmaps):
    stall = Stall()
    injection = proxy.inject(stall, when=matching("create"))
    creating = asyncio.create_task(client.create(configmaps, a_configmap("a")))
    await injection.hit()
    assert not await exists(api, f"{configmaps}/a")
    assert not creating.done()
    stall.release()
    await creating
    assert await exists(api, f"{configmaps}/a")


async def test_a_running_watch_stalls_silently_and_loses_nothing(proxy, client, api, configmaps):
    async with watching(client, configmaps) as watch:
        await api.create(configmaps, a_configmap("before"))
        assert await watch.names(1) == [("ADDED", "before")]
        stall = Stall()
        assert proxy.disturb(stall, matching("watch", "configmaps")) == 1
        await api.create(configmaps, a_configmap("during"))
        with pytest.raises(TimeoutError):
            await watch.line(within=0.3)
        stall.release()
        assert await watch.names(1) == [("ADDED", "during")]


async def test_a_gone_event_ends_a_running_watch_with_410(proxy, client, configmaps):
    async with watching(client, configmaps) as watch:
        proxy.disturb(GoneEvent())
        event = await watch.event()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == (
            "ERROR",
            410,
            "Expired",
        )
        assert await watch.line() == b"", "the stream ends cleanly"


async def test_a_gone_event_may_come_after_some_lines_of_the_next_watch(proxy, client, api, configmaps):
    proxy.inject(GoneEvent(after=1), when=matching("watch", "configmaps"))
    async with watching(client, configmaps) as watch:
        await api.create(configmaps, a_configmap("a"))
        assert await watch.names(1) == [("ADDED", "a")]
        assert (await watch.event())["type"] == "ERROR"


async def test_a_cut_watch_ends_in_the_middle_of_a_line(proxy, client, api, configmaps):
    proxy.inject(CutMidLine(after=1), when=matching("watch"))
    async with watching(client, configmaps) as watch:
        await api.create(configmaps, a_configmap("whole"))
        assert await watch.names(1) == [("ADDED", "whole")]
        await api.create(configmaps, a_configmap("half"))
        seen, error = await watch.rest()
        assert seen.startswith(b'{"type":"ADDED"')
        assert b"\n" not in seen
        assert isinstance(error, aiohttp.ClientError)


async def test_held_lines_come_when_released_and_others_pass(proxy, client, api, configmaps):
    hold = proxy.hold("configmaps", name="hidden")
    async with watching(client, configmaps) as watch:
        await api.create(configmaps, a_configmap("hidden", v="1"))
        await api.create(configmaps, a_configmap("open"))
        assert await watch.names(1) == [("ADDED", "open")]
        await hold.caught()
        await api.merge(f"{configmaps}/hidden", {"data": {"v": "2"}})
        await eventually_true(lambda: len(hold.held) == 2)
        hold.release()
        assert await watch.names(2) == [("ADDED", "hidden"), ("MODIFIED", "hidden")]


async def test_a_hold_can_leave_out_what_came_in_between(proxy, client, api, configmaps):
    hold = proxy.hold("configmaps")
    await api.create(configmaps, a_configmap("old"))
    async with watching(client, configmaps) as watch:
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


async def test_an_outage_breaks_watches_and_refuses_until_it_is_over(proxy, client, api, configmaps):
    async with watching(client, configmaps) as watch:
        async with proxy.outage() as outage:
            with pytest.raises(aiohttp.ClientError):
                await watch.line()
            for _ in range(3):
                with pytest.raises(aiohttp.ClientError):
                    await client.create(configmaps, a_configmap("a"))
            assert len(outage.hits) == 3
        await client.create(configmaps, a_configmap("a"))


async def test_a_client_that_leaves_takes_its_watch_along(proxy, client, configmaps):
    async with watching(client, configmaps):
        assert len(proxy.watches) == 1
    await eventually_true(lambda: not proxy.watches)


async def test_tests_can_wait_for_a_request_and_for_quiet(proxy, client, configmaps):
    mark = proxy.trace.mark()
    waiting = asyncio.create_task(proxy.wait_for(matching("delete", "configmaps", name="a"), since=mark))
    await client.create(configmaps, a_configmap("a"))
    assert not waiting.done()
    await client.delete(f"{configmaps}/a")
    assert (await waiting).status == 200
    await proxy.quiet(0.1)
    assert len(proxy.trace.writes(since=mark)) == 2


async def test_waiting_in_vain_shows_what_was_seen(proxy, client, configmaps):
    await client.create(configmaps, a_configmap("a"))
    with pytest.raises(AssertionError, match="create configmaps") as failure:
        await proxy.wait_for(matching("delete"), within=0.1)
    assert "→ 201" in str(failure.value)


async def test_a_server_that_is_away_looks_like_a_broken_connection(tmp_path):
    from kit.proxy import FaultProxy

    kubeconfig = tmp_path / "nowhere"
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "c", "user": {}}],
            }
        )
    )
    async with FaultProxy(kubeconfig) as proxy, Api.connect(proxy.write_kubeconfig(tmp_path)) as client:
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get("/version")
