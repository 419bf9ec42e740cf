"""`quintet logs` on a real API server with a fake kubelet."""

import asyncio
import contextlib
import ssl

import pytest
from aiohttp import web

from kit.cli.commands import Person
from kit.cluster.simulated_node import NODE
from kit.eventually import eventually
from kit.kinds import eventingbackends as eventing
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import PODS
from quintet.local.controlplane.certificates import Authority


class Kubelet:
    """Answers for the logs of containers; what is said later comes to those who follow."""

    def __init__(self):
        self.said = [f"line {number}" for number in range(1, 4)]
        self._news = asyncio.Condition()

    async def say(self, line):
        async with self._news:
            self.said.append(line)
            self._news.notify_all()

    async def answer(self, request):
        """GET /containerLogs/NAMESPACE/POD/CONTAINER."""
        if request.query.get("previous"):
            return web.Response(status=400, text="previous terminated container not found")
        given = int(request.query.get("tailLines", len(self.said)))
        shown = max(len(self.said) - given, 0)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            while shown < len(self.said):
                await response.write(f"{self.said[shown]}\n".encode())
                shown += 1
            if not request.query.get("follow"):
                return response
            async with self._news:
                await self._news.wait_for(lambda known=shown: known < len(self.said))


@contextlib.asynccontextmanager
async def serving(kubelet, tmp_path):
    Authority.create(tmp_path / "pki")
    certificate, key = Authority.load(tmp_path / "pki").issue("kubelet", "kubelet", ())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", kubelet.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@pytest.fixture
async def kubelet(api, simulated_node, tmp_path):
    kubelet = Kubelet()
    async with serving(kubelet, tmp_path) as port:
        endpoint = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        await api.merge(f"/api/v1/nodes/{NODE}/status", {"status": endpoint})
        yield kubelet


@pytest.fixture
async def person(client, api, cluster, namespace, kubelet):
    """Somebody with a JsonServer whose pod says that it runs."""
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-books"), Object, namespace=namespace)
    async with jsonserver_operator(cluster.kubeconfig, namespace=namespace):

        async def runs():
            (pod,) = (await api.get(PODS.path(namespace)))["items"]
            assert pod["status"]["phase"] == "Running", pod["status"]

        await eventually(runs, within=120.0)
        yield Person(cluster.kubeconfig, namespace)


async def said(person, *options):
    """The lines, once the pod says that it runs."""

    async def probe():
        lines = (await person.sees("logs", "js", "app-books", *options)).splitlines()
        assert lines
        return lines

    return await eventually(probe, within=120.0)


async def test_logs_prefix_each_line_with_pod_and_container(person):
    lines = await said(person)
    assert [line.split("/json-server] ")[1] for line in lines] == ["line 1", "line 2", "line 3"]
    assert all(line.startswith("[app-books-") for line in lines)
    assert [line.split()[-1] for line in await said(person, "--tail", "1")] == ["3"]


async def test_logs_follow_includes_pods_that_start_later(person, kubelet, client, namespace):
    await said(person)
    async with person.follows("logs", "js", "app-books", "-f", "--tail", "1") as followed:
        await followed.shows("line 3")
        assert "line 2" not in followed.shown
        await kubelet.say("line 4")
        await followed.shows("/json-server] line 4")
        body = {"spec": {"replicas": 2}}
        await client.patch(JSONSERVERS, ObjectKey(namespace, "app-books"), body, Object)

        def two_pods():
            fronts = {
                line.partition("]")[0] for line in followed.shown.splitlines() if line.endswith("line 4")
            }
            assert len(fronts) == 2, followed.shown

        await eventually(two_pods, within=120.0)


async def test_logs_reports_containers_that_cannot_be_read(person):
    await said(person)
    answer = await person.asks("logs", "js", "app-books", "-p")
    assert (answer.returncode, answer.stdout) == (1, ""), answer
    assert "cannot read the log: previous terminated container" in answer.stderr


async def test_logs_of_object_without_pods_names_next_step(client, cluster, namespace):
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-alone"), Object, namespace=namespace)
    answer = await Person(cluster.kubeconfig, namespace).asks("logs", "js", "app-alone")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "JsonServer app-alone has no pods" in answer.stderr
    assert "quintet explain jsonserver/app-alone" in answer.stderr


async def test_logs_of_controller_finds_pods_by_labels(client, cluster, namespace, kubelet):
    labels = {"app.kubernetes.io/name": "quintet-checkup", "app.kubernetes.io/part-of": "quintet"}
    container = {"name": "quintet", "image": "quintet.local/quintet:1"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "quintet-checkup-1", "labels": labels},
        "spec": {"containers": [container]},
    }
    await client.create(PODS, pod, Object, namespace=namespace)
    somebody = Person(cluster.kubeconfig, namespace)

    async def probe():
        assert "[quintet-checkup-1/quintet] line 3" in await somebody.sees("logs", "controller", "checkup")

    await eventually(probe, within=120.0)
    other = await somebody.asks("logs", "controller", "eventing")
    assert (other.returncode, other.stdout) == (1, "")
    assert f"controller eventing has no pods in namespace {namespace}" in other.stderr
    wrong = await somebody.asks("logs", "controller", "nothing")
    assert wrong.returncode == 2
    assert "name one controller: jsonserver, " in wrong.stderr


async def test_logs_of_subscription_are_those_of_the_dispatcher_of_its_backend(
    backends, client, cluster, namespace, kubelet
):
    await eventing.create_subscription(backends, namespace, "orders", "events")
    labels = {"eventing.kyma-project.io/backend": "events-dispatcher"}
    container = {"name": "dispatcher", "image": "quintet.local/quintet:1"}
    for name, labelled in (("events-dispatcher-1", labels), ("other", {})):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labelled},
            "spec": {"containers": [container]},
        }
        await client.create(PODS, pod, Object, namespace=namespace)
    somebody = Person(cluster.kubeconfig, namespace)

    async def probe():
        shown = await somebody.sees("logs", "evsub", "orders")
        assert "[events-dispatcher-1/dispatcher] line 3" in shown
        assert "[other/" not in shown

    await eventually(probe, within=120.0)
    async with somebody.follows("logs", "evsub", "orders", "-f") as followed:
        await followed.shows("[events-dispatcher-1/dispatcher] line 3")
        await kubelet.say("line 4")
        await followed.shows("[events-dispatcher-1/dispatcher] line 4")
        assert "[other/" not in followed.shown
