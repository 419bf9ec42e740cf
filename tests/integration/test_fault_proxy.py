"""The fault proxy records every request and applies each fault. Watches: test_fault_proxy_watches."""

import asyncio
import errno
import json
import secrets
import signal

import aiohttp
import pytest

from kit.cluster.api import Api, RefusedError
from kit.cluster.objects import a_configmap
from kit.eventually import eventually
from kit.faults.proxy import (
    Answer,
    Before,
    Delay,
    DropReply,
    FaultProxy,
    KillAfterCommit,
    KillBefore,
    Refuse,
    Stall,
    changes_state,
    matching,
)


@pytest.fixture
def configmaps(namespace):
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def test_fault_proxy_records_verb_and_resource_of_every_request(
    proxy, proxied, api, configmaps, namespace
):
    await proxied.create(configmaps, a_configmap("a"))
    await proxied.merge(f"{configmaps}/a", {"data": {"k": "1"}})
    applied = a_configmap("b") | {"apiVersion": "v1", "kind": "ConfigMap"}
    stored = await proxied.apply(f"{configmaps}/b", applied, manager="test")
    await proxied.get(f"{configmaps}/b")
    await proxied.delete(f"{configmaps}/a")
    await proxied.delete(configmaps)
    await proxied.get("/version")
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


async def test_leases_dry_runs_and_reviews_are_recorded_without_write_number(
    proxy, proxied, configmaps, namespace
):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    await proxied.create(leases, {"metadata": {"name": "leader"}})
    await proxied.create(configmaps, a_configmap("a"), dryRun="All")
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    await proxied.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    await proxied.create(configmaps, a_configmap("a"))
    assert [(e.request.resource, e.write) for e in proxy.trace] == [
        ("leases", None),
        ("configmaps", None),
        ("selfsubjectaccessreviews", None),
        ("configmaps", 1),
    ]


async def test_client_with_token_keeps_its_identity_through_proxy(proxy, api, namespace, tmp_path):
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "nobody"}})
    token = (await api.create(f"{accounts}/nobody/token", {"spec": {}}))["status"]["token"]
    async with Api.connect(proxy.write_kubeconfig(tmp_path, token=token)) as nobody:
        with pytest.raises(RefusedError, match=f"system:serviceaccount:{namespace}:nobody") as refused:
            await nobody.get(f"/api/v1/namespaces/{namespace}/secrets")
    assert refused.value.code == 403


async def test_kill_before_write_leaves_server_unchanged(proxy, proxied, api, configmaps):
    killed = []
    proxy.inject(KillBefore(lambda: killed.append("operator")), at_write=2)
    await proxied.create(configmaps, a_configmap("a"))
    with pytest.raises(aiohttp.ClientError):
        await proxied.create(configmaps, a_configmap("b"))
    assert killed == ["operator"]
    assert await api.exists(f"{configmaps}/a")
    assert not await api.exists(f"{configmaps}/b")


async def test_kill_after_commit_keeps_the_write(proxy, proxied, api, configmaps):
    killed = []
    proxy.inject(KillAfterCommit(lambda: killed.append(proxy.trace.writes()[-1].status)), at_write=1)
    with pytest.raises(aiohttp.ClientError):
        await proxied.create(configmaps, a_configmap("a"))
    assert killed == [201], "killed only after the server's answer"
    assert await api.exists(f"{configmaps}/a")


async def test_process_can_be_killed_between_write_and_response(
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
    assert await api.exists(f"{configmaps}/a")


async def test_dropped_response_is_committed_and_retry_conflicts(proxy, proxied, configmaps):
    proxy.inject(DropReply(), when=matching("create", "configmaps"))
    with pytest.raises(aiohttp.ClientError):
        await proxied.create(configmaps, a_configmap("a"))
    with pytest.raises(RefusedError) as refused:
        await proxied.create(configmaps, a_configmap("a"))
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
async def test_injected_error_is_a_status_object_and_ends_after_given_times(
    proxy, proxied, api, configmaps, answer
):
    injection = proxy.inject(answer, when=changes_state, times=2)
    for _ in range(2):
        async with proxied.session.post(proxied.server + configmaps, json=a_configmap("a")) as reply:
            status = await reply.json()
            assert reply.headers.get("Retry-After") == (answer.retry_after and str(answer.retry_after))
        assert (reply.status, status["kind"], status["reason"]) == (answer.code, "Status", answer.reason)
    assert not await api.exists(f"{configmaps}/a")
    await proxied.create(configmaps, a_configmap("a"))
    assert len(injection.hits) == 2


async def test_refused_request_never_reaches_server(proxy, proxied, api, configmaps):
    proxy.inject(Refuse(), when=matching("create"))
    with pytest.raises(aiohttp.ClientOSError) as broken:
        await proxied.create(configmaps, a_configmap("a"))
    assert broken.value.errno == errno.ECONNRESET
    assert not await api.exists(f"{configmaps}/a")


async def test_delayed_request_arrives_after_later_one(proxy, proxied, configmaps):
    async def assert_overtaken() -> None:
        injection = proxy.inject(Delay(0.3), when=matching("create"))
        first, second = (
            a_configmap(f"{name}-{secrets.token_hex(4)}") for name in ("sent-first", "sent-second")
        )
        delayed = asyncio.create_task(proxied.create(configmaps, first))
        await injection.hit()
        overtaking = await proxied.create(configmaps, second)
        versions = [int(stored["metadata"]["resourceVersion"]) for stored in (overtaking, await delayed)]
        assert versions == sorted(versions)

    await eventually(assert_overtaken)  # retried if the machine stalls for as long as the delay


async def test_concurrent_write_before_request_causes_real_conflict(proxy, proxied, api, configmaps):
    stored = await proxied.create(configmaps, a_configmap("a"))

    async def change():
        await api.merge(f"{configmaps}/a", {"data": {"by": "somebody else"}})

    proxy.inject(Before(change), when=matching("update"))
    with pytest.raises(RefusedError) as refused:
        await proxied.update(f"{configmaps}/a", stored)
    assert refused.value.status["reason"] == "Conflict"


async def test_stalled_request_waits_until_released(proxy, proxied, api, configmaps):
    stall = Stall()
    injection = proxy.inject(stall, when=matching("create"))
    creating = asyncio.create_task(proxied.create(configmaps, a_configmap("a")))
    await injection.hit()
    assert not await api.exists(f"{configmaps}/a")
    assert not creating.done()
    stall.release()
    await creating
    assert await api.exists(f"{configmaps}/a")


async def test_trace_waits_for_request_and_for_quiet(proxy, proxied, configmaps):
    mark = proxy.trace.mark()
    waiting = asyncio.create_task(proxy.wait_for(matching("delete", "configmaps", name="a"), since=mark))
    await proxied.create(configmaps, a_configmap("a"))
    assert not waiting.done()
    await proxied.delete(f"{configmaps}/a")
    assert (await waiting).status == 200
    await proxy.quiet(0.1)
    assert len(proxy.trace.writes(since=mark)) == 2


async def test_wait_that_times_out_shows_recorded_requests(proxy, proxied, configmaps):
    await proxied.create(configmaps, a_configmap("a"))
    with pytest.raises(AssertionError, match="create configmaps") as failure:
        await proxy.wait_for(matching("delete"), within=0.1)
    assert "→ 201" in str(failure.value)


async def test_unreachable_server_looks_like_broken_connection(tmp_path):
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
