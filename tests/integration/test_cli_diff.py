"""`quintet diff` against a real API server, with the exit codes of `kubectl diff`."""

import copy
import json
from pathlib import Path

import pytest

from kit.cli.invoke import Said, quintet
from kit.kinds import jsonservers
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, Object, ObjectKey
from quintet.kube.client import Client
from quintet.local.cluster import Cluster


@pytest.fixture(scope="module")
async def servers(client: Client) -> Client:
    await jsonservers.install(client)
    return client


async def differs(cluster: Cluster, namespace: str, *bodies: JsonObject) -> Said:
    text = "\n---\n".join(map(json.dumps, bodies))
    return await quintet("diff", "-f", "-", "-n", namespace, "--kubeconfig", cluster.kubeconfig, input=text)


def titles(said: Said) -> list[str]:
    return [line.removeprefix("+++ new/") for line in said.out.splitlines() if line.startswith("+++ ")]


def changed(said: Said) -> list[str]:
    return [
        line for line in said.out.splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]


@pytest.mark.parametrize("how", [(), ("--server-side",)], ids=["client side", "server side"])
async def test_diff_of_applied_manifest_is_empty_and_shows_changes_with_children(
    how, servers: Client, cluster: Cluster, namespace: str
):
    body = jsonservers.a_jsonserver("app-books", replicas=2, image="books:1")
    done = cluster.kubectl("apply", *how, "-n", namespace, "-f", "-", input=json.dumps(body))
    assert done.returncode == 0, done.stderr

    same = await differs(cluster, namespace, body)
    assert (same.code, same.out) == (0, ""), same.shown

    other = copy.deepcopy(body)
    other["spec"]["replicas"] = 5
    del other["spec"]["image"]
    found = await differs(cluster, namespace, other)
    assert found.code == 1, found.shown
    assert titles(found) == [f"JsonServer {namespace}/app-books", f"Deployment {namespace}/app-books"]
    assert changed(found)[:3] == ["-  image: books:1", "-  replicas: 2", "+  replicas: 5"], found.shown
    assert "-          image: books:1" in changed(found)

    key = ObjectKey(namespace, "app-books")
    assert (await servers.get(JSONSERVERS, key, JsonObject))["spec"]["replicas"] == 2, "it was changed"


async def test_diff_of_new_object_shows_it_with_its_children(servers, cluster: Cluster, namespace):
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "books"}}
    found = await differs(cluster, namespace, account, jsonservers.a_jsonserver("app-books"))
    assert found.code == 1, found.shown
    where = f"{namespace}/app-books"
    want = [f"{kind} {where}" for kind in ("JsonServer", "ConfigMap", "Service", "Deployment")]
    assert titles(found) == [f"ServiceAccount {namespace}/books", *want]
    assert all(line.startswith("+") for line in changed(found))


async def test_diff_with_validation_errors_exits_with_2(servers, cluster: Cluster, namespace: str):
    found = await differs(cluster, namespace, jsonservers.a_jsonserver("web"))
    assert (found.code, found.out) == (2, ""), found.shown
    assert "Invalid name: must start with 'app-'." in found.err
    assert "next: fix the errors above" in found.err


async def test_diff_rejected_by_the_server_exits_with_2(
    servers: Client, cluster: Cluster, namespace: str, tmp_path: Path
):
    nobody = cluster.client_kubeconfig("nobody")
    await servers.create(JSONSERVERS, jsonservers.a_jsonserver("app-books"), Object, namespace=namespace)
    text = json.dumps(jsonservers.a_jsonserver("app-books", replicas=3))
    found = await quintet("diff", "-f", "-", "-n", namespace, "--kubeconfig", nobody, input=text)
    assert (found.code, found.out) == (2, ""), found.shown
    assert "no permission" in found.err


async def test_diff_of_unserved_kind_exits_with_2(servers, cluster: Cluster, namespace: str):
    body = {"apiVersion": "nobody.example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    found = await differs(cluster, namespace, body)
    assert (found.code, found.out) == (2, ""), found.shown
    assert "the cluster does not serve Nothing of nobody.example.com/v1" in found.err
