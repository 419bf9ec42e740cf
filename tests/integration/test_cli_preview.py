"""Previews compared with the objects that controllers create on a real API server."""

import json
from typing import Any

import pytest
import yaml

from kit.cli.invoke import works
from kit.cluster.objects import find_differences
from kit.eventually import eventually
from kit.kinds import checkups, eventingbackends, jsonservers, statefulclusters
from kit.nats.server import NatsServer
from quintet.apis.checkup.contract import UID_LABEL, object_name
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.controllers.eventingbackend.decide import server
from quintet.kube.client import Client

TYPES = {
    each.kind: each
    for each in (
        *eventingbackends.CHILD_TYPES,
        *checkups.CHILD_TYPES,
        *jsonservers.CHILD_TYPES,
        statefulclusters.PODS,
        statefulclusters.CLAIMS,
        statefulclusters.REVISIONS,
    )
}
# What the operators of these tests were set up with.
IMAGES = {
    "quintet.local/quintet:0.1.0": eventingbackends.IMAGE,
    "quintet.local/nats:2.15.2": eventingbackends.NATS_IMAGE,
}


async def previewed(body: JsonObject, namespace: str) -> list[JsonObject]:
    printed = await works("preview", "-n", namespace, "-f", "-", input=json.dumps(body))
    for theirs, ours in IMAGES.items():
        printed = printed.replace(theirs, ours)
    return [each for each in yaml.safe_load_all(printed) if each]


async def assert_made(client: Client, namespace: str, wanted: list[JsonObject]) -> None:
    for body in wanted:
        key = ObjectKey(namespace, body["metadata"]["name"])
        seen = await client.get(TYPES[body["kind"]], key, dict[str, Any])
        assert find_differences(body, seen) == [], f"{body['kind']} {key}"


async def test_preview_of_jsonserver_matches_created_objects(client: Client, cluster, namespace: str):
    await jsonservers.install(client)
    body = jsonservers.a_jsonserver("app-books", replicas=2, storage="Ephemeral")
    wanted = await previewed(body, namespace)
    async with jsonservers.jsonserver_operator(cluster.kubeconfig, namespace=namespace):
        await client.create(jsonservers.JSONSERVERS, body, Object, namespace=namespace)
        await jsonservers.wait_for_state(client, ObjectKey(namespace, "app-books"), "Synced")
    assert len(wanted) == len(jsonservers.CHILD_TYPES)
    await assert_made(client, namespace, wanted)


async def test_preview_of_checkup_matches_created_objects(
    checkup_operator, checkups_client: Client, namespace: str
):
    body = checkups.a_checkup("hello", params={"message": "Hi!"})
    wanted = await previewed(body, namespace)
    made = await checkups_client.create(checkups.CHECKUPS, body, Object, namespace=namespace)
    uid = made.metadata.uid
    await checkups.SimulatedPod.wait_for(checkups_client, made.key)

    digest = object_name("hello", uid, 1).rpartition("-")[2]
    known = json.loads(json.dumps(wanted).replace("<digest>", digest).replace("<uid>", uid))
    assert [each["metadata"]["labels"][UID_LABEL] for each in known] == [uid] * len(checkups.CHILD_TYPES)
    await assert_made(checkups_client, namespace, known)


@pytest.fixture
def checkups_client(checkups: Client) -> Client:
    return checkups


async def test_preview_of_statefulcluster_matches_created_objects(
    cluster_operator, simulated_node, clusters: Client, namespace: str
):
    body = statefulclusters.a_cluster(replicas=2)
    wanted = await previewed(body, namespace)
    key = await statefulclusters.create(clusters, namespace, replicas=2)
    found = await statefulclusters.get(clusters, key)

    async def assert_all() -> None:
        text = json.dumps(wanted).replace("<uid>", found.metadata.uid)
        pods = await statefulclusters.list_pods(clusters, namespace)
        assert len(pods) == 2, statefulclusters.names(pods)
        for number, pod in enumerate(pods, 1):
            text = text.replace(f"<{number}>", pod["metadata"]["labels"]["enge.me/claim-group"])
        await assert_made(clusters, namespace, json.loads(text))
        assert len(await statefulclusters.list_claims(clusters, namespace)) == 2

    await eventually(assert_all, within=120)


@pytest.mark.parametrize("own_server", [False, True], ids=["of others", "of its own"])
async def test_preview_of_backend_with_server_matches_created_objects(
    own_server: bool, backend_operator, backends_client: Client, nats: NatsServer, namespace: str
):
    client = backends_client
    body = eventingbackends.a_backend("any", **({} if own_server else {"url": nats.url}))
    wanted = await previewed(body, namespace)
    key = await eventingbackends.create(client, namespace, "any", **({} if own_server else {"url": nats.url}))
    if own_server:
        # It is never ready without a node, so only its server is made.
        own = {each.kind for each in (server.STATEFUL_SETS, server.NETWORK_POLICIES)}
        wanted = [each for each in wanted if each["metadata"]["name"] == "any-nats"]
        assert own < {each["kind"] for each in wanted}
    else:
        await eventingbackends.wait_until_ready(client, key)
        assert len(wanted) == len(await eventingbackends.children(client, namespace))
    await eventually(lambda: assert_made(client, namespace, wanted), within=120)


@pytest.fixture
def backends_client(backends: Client) -> Client:
    return backends
