"""Support bundles of `quintet report` on a real API server."""

import contextlib
import io
import tarfile
from pathlib import Path

import pytest

from kit.cli.commands import Person
from kit.cluster.control_plane import fresh_namespace
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator, wait_for_state
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey
from quintet.runtime.events import EVENTS

IN_DATA, IN_ENV, IN_SECRET = "planted-in-data-4711", "planted-in-env-4712", "planted-in-secret-4713"
LABELS = {"app.kubernetes.io/name": "quintet", "app.kubernetes.io/part-of": "quintet"}
PROCESS = {
    "metadata": {"name": "quintet", "labels": LABELS},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "containers": [
                    {"name": "quintet", "image": "q:1", "env": [{"name": "GIVEN", "value": IN_ENV}]}
                ]
            },
        },
    },
}


@pytest.fixture(scope="module")
async def scene(client, cluster, api):
    """A JsonServer at work, a process of ours, and a Secret, in one namespace; nobody changes anything there."""
    async with (
        fresh_namespace(api) as namespace,
        SimulatedNode(api, namespace=namespace).running(),
        at_work(client, cluster, api, namespace),
    ):
        yield namespace


@contextlib.asynccontextmanager
async def at_work(client, cluster, api, namespace):
    await install(client)
    secret = {"metadata": {"name": "private"}, "stringData": {"password": IN_SECRET}}
    await api.create(f"/api/v1/namespaces/{namespace}/secrets", secret)
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", PROCESS)
    body = a_jsonserver("app-books", config=f'{{"people": [{{"id": 1, "key": "{IN_DATA}"}}]}}')
    await client.create(JSONSERVERS, body, Object, namespace=namespace)
    async with jsonserver_operator(cluster.kubeconfig, namespace=namespace):
        await wait_for_state(client, ObjectKey(namespace, "app-books"), "Synced", within=120.0)

        async def available() -> None:
            for name in ("quintet", "app-books"):
                found = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
                assert found["status"].get("availableReplicas") == 1, found["status"]
            # Written by others, whenever they get round to it.
            assert (await api.get(EVENTS.path(namespace)))["items"]

        await eventually(available, within=120)
        yield


def unpacked(path: Path) -> dict[str, str]:
    """Path below the one folder of the archive → content."""
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
        return {
            each.name.partition("/")[2]: opened.read().decode()
            for each in archive.getmembers()
            if (opened := archive.extractfile(each)) is not None
        }


async def test_support_bundle_contains_objects_trees_and_processes_but_no_secret(scene, proxy, tmp_path):
    target = tmp_path / "report.tar.gz"
    person = Person(proxy.write_kubeconfig(tmp_path), scene)

    shown = await person.sees("report", "-o", str(target), "--operator-namespace", scene)

    assert shown.strip() == str(target)
    assert target.stat().st_mode & 0o077 == 0, "others could read it"
    files = unpacked(target)
    assert "Kubernetes v1." in files["versions.txt"]
    assert "installation: " in files["doctor.txt"]
    assert '"name": "app-books"' in files[f"objects/jsonservers/{scene}/app-books.json"]
    tree = files[f"trees/{scene}.txt"]
    assert "JsonServer app-books" in tree
    assert "Deployment app-books  1/1" in tree
    assert "Pod app-books-" in tree
    assert "processes/deployments/quintet.json" in files
    assert any(name.startswith("processes/pods/quintet-") for name in files)
    assert '"GIVEN"' in files["processes/deployments/quintet.json"]
    assert '"reason"' in files[f"events/{scene}.json"]
    assert "jsonservers.example.com" in files["installation/definitions.json"]
    for planted in (IN_DATA, IN_ENV, IN_SECRET):
        assert [name for name, text in files.items() if planted in text] == []
    asked = {each.request.resource for each in proxy.trace.requests()}
    assert "pods" in asked, asked
    assert "secrets" not in asked, "no Secret is read at all"


async def test_support_bundle_index_lists_unreadable_items_with_reasons(scene, cluster, tmp_path):
    target = tmp_path / "report.tar.gz"
    person = Person(cluster.client_kubeconfig("nobody-in-particular"), scene)

    await person.sees("report", "-o", str(target), "--operator-namespace", scene)

    index = unpacked(target)["index.md"]
    assert "## Not readable" in index
    assert f"- jsonservers.example.com in {scene}: " in index
    assert "nobody-in-particular" in index


async def test_support_bundle_is_created_when_logs_are_unavailable(scene, cluster, tmp_path):
    """There is no real kubelet here: the API server says why, and that is what the index says."""
    target = tmp_path / "report.tar.gz"
    await Person(cluster.kubeconfig, scene).sees("report", "-o", str(target), "--operator-namespace", scene)
    index = unpacked(target)["index.md"]
    assert "- logs/quintet-" in index
    assert "- metrics/quintet-" in index


async def test_support_bundle_with_data_keeps_values_and_warns(scene, cluster, tmp_path):
    target = tmp_path / "report.tar.gz"
    person = Person(cluster.kubeconfig, scene)
    await person.sees("report", "--with-data", "-o", str(target), "--operator-namespace", scene)
    files = unpacked(target)
    assert IN_DATA in files[f"objects/jsonservers/{scene}/app-books.json"]
    assert "confidential" in files["index.md"]
    assert [name for name, text in files.items() if IN_SECRET in text] == []


async def test_report_to_unwritable_file_names_next_step(scene, cluster, tmp_path):
    done = await Person(cluster.kubeconfig, scene).asks(
        "report", "-o", str(tmp_path / "no" / "such" / "folder.tar.gz")
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    assert "next: " in done.stderr
