"""Events all the way: published by a pod, kept by JetStream, delivered by the dispatcher to a sink pod.

The operator, the backend with a server of its own, publishers, dispatchers and the sink are real pods
in a namespace that takes only pods of the strictest kind.
"""

import asyncio
import json
from typing import Any

import pytest

from e2e.kubectl_client import KubectlClient, find_forbidden_requests, object_list
from kit.eventually import eventually
from kit.kinds.eventingbackends import a_backend

pytestmark = pytest.mark.node

IMAGE = "quintet.local/json-server:0.17.4"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
# Stores the requests that it receives, and returns them.
SINK = """
const received = []
require('http').createServer((request, answer) => {
  const parts = []
  request.on('data', part => parts.push(part))
  request.on('end', () => {
    if (request.method === 'GET') { answer.end(JSON.stringify(received)); return }
    received.push({path: request.url, headers: request.headers, body: Buffer.concat(parts).toString()})
    answer.writeHead(204).end()
  })
}).listen(8080)
"""
# Sends one event to the publisher proxy and prints the response.
SEND = """
const [url, headers, body] = process.argv.slice(1)
const request = require('http').request(url, {method: 'POST', headers: JSON.parse(headers)}, answer => {
  const parts = []
  answer.on('data', part => parts.push(part))
  answer.on('end', () => process.stdout.write(answer.statusCode + ' ' + Buffer.concat(parts)))
})
request.on('error', error => process.stdout.write('0 ' + error.message))
request.end(body)
"""
# Sends events one by one, each until it is accepted; prints the number of attempts.
SEND_MANY = """
const [url, count] = process.argv.slice(1)
const send = number => new Promise(done => {
  const headers = {'ce-specversion': '1.0', 'ce-id': 'many-' + number, 'ce-source': 'commerce',
    'ce-type': 'order.many.v1', 'content-type': 'application/json'}
  const request = require('http').request(url, {method: 'POST', headers, timeout: 10000}, answer => {
    answer.resume(); answer.on('end', () => done(answer.statusCode))
  })
  request.on('error', () => done(0))
  request.on('timeout', () => request.destroy())
  request.end('{}')
})
const wait = () => new Promise(done => setTimeout(done, 100))
const all = async () => {
  let tries = 0
  for (let number = 0; number < Number(count); number++) {
    do { tries++; var status = await send(number); if (status !== 204) await wait() } while (status !== 204)
  }
  process.stdout.write(String(tries))
}
all()
"""


def a_sink() -> dict[str, Any]:
    container = {
        "name": "sink",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["node", "-e", SINK],
        "ports": [{"containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sink", "labels": {"app": "sink"}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        },
    }


def a_service() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "sink"},
        "spec": {"selector": {"app": "sink"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }


def a_subscription(
    client: KubectlClient, name: str, *types: str, matching: str = "standard", **spec: Any
) -> dict:
    return {
        "apiVersion": "eventing.kyma-project.io/v1alpha2",
        "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {
            "sink": f"http://sink.{client.namespace}.svc.cluster.local/{name}",
            "source": "commerce",
            "types": list(types),
            "typeMatching": matching,
            **spec,
        },
    }


def send(client: KubectlClient, headers: dict[str, str], body: str) -> str:
    url = f"http://bus-publisher-proxy.{client.namespace}/publish"
    return client.kubectl("exec", "sink", "--", "node", "-e", SEND, "--", url, json.dumps(headers), body)


async def send_with_retries(client: KubectlClient, headers: dict[str, str], body: str) -> None:
    """Send an event with retries: a Service routes to new pods with a delay."""

    def assert_accepted() -> None:
        said = send(client, headers, body)
        assert said == "204 ", said

    await eventually(assert_accepted, within=60)


def received_events(client: KubectlClient, path: str) -> list[dict[str, Any]]:
    shown = client.kubectl(
        "exec", "sink", "--", "node", "-e",
        "require('http').get('http://localhost:8080', answer => answer.pipe(process.stdout))",
    )  # fmt: skip
    return [each for each in json.loads(shown) if each["path"] == path]


@pytest.fixture
async def bus(shared_client: KubectlClient) -> KubectlClient:
    """A namespace with a backend, a sink and ready Subscriptions."""
    client = shared_client
    subscriptions = (
        a_subscription(client, "standard", "order created.v1"),
        a_subscription(client, "exact", "order.paid.v1", matching="exact"),
        a_subscription(client, "many", "order.many.v1", config={"maxInFlightMessages": 1}),
    )
    client.apply(object_list(a_backend("bus", maxBytes="32Mi"), a_sink(), a_service(), *subscriptions))
    await client.wait("evsub", "--all", "--for=condition=Ready", seconds=400)
    await client.wait("pod/sink", "--for=condition=Ready", seconds=240)
    return client


@pytest.mark.timeout(900)
async def test_events_of_every_format_and_type_matching_are_delivered(bus: KubectlClient):
    sent = {"standard": "order created.v1", "exact": "order.paid.v1"}
    for name, event_type in sent.items():
        attributes = {"specversion": "1.0", "source": "commerce", "type": event_type}
        binary = {f"ce-{key}": value.replace(" ", "%20") for key, value in attributes.items()}
        binary |= {"ce-id": f"{name}-binary", "content-type": "application/json", "traceparent": TRACE}
        await send_with_retries(bus, binary, '{"a":1}')
        document = {**attributes, "id": f"{name}-structured", "data": {"a": 1}}
        structured = {"content-type": "application/cloudevents+json", "traceparent": TRACE}
        await send_with_retries(bus, structured, json.dumps(document))

    def assert_received() -> None:
        for name, event_type in sent.items():
            got = {each["headers"]["ce-id"]: each for each in received_events(bus, f"/{name}")}
            assert set(got) == {f"{name}-binary", f"{name}-structured"}, got
            for each in got.values():
                headers = each["headers"]
                assert headers["ce-type"] == event_type.replace(" ", "%20")
                assert headers["ce-source"] == "commerce"
                assert headers["ce-specversion"] == "1.0"
                assert headers["content-type"] == "application/json"
                assert headers["traceparent"] == TRACE
                assert json.loads(each["body"]) == {"a": 1}

    await eventually(assert_received, within=60)
    shown = [line.split() for line in bus.kubectl("get", "evsub", "--no-headers").splitlines()]
    assert [(line[0], line[1], line[2]) for line in shown] == [
        ("exact", "true", "bus"), ("many", "true", "bus"), ("standard", "true", "bus"),
    ]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
async def test_events_arrive_in_order_after_server_and_dispatcher_are_killed(bus: KubectlClient):
    count = 200
    url = f"http://bus-publisher-proxy.{bus.namespace}/publish"
    before = bus.get("pods", "bus-nats-0")["metadata"]["uid"]

    def publish() -> int:
        return int(bus.kubectl("exec", "sink", "--", "node", "-e", SEND_MANY, "--", url, str(count)))

    publishing = asyncio.create_task(asyncio.to_thread(publish))
    await eventually(lambda: _some(bus), within=60)
    dispatchers = bus.get("pods", "", "-l", "eventing.kyma-project.io/backend=bus-dispatcher")["items"]
    bus.kubectl("delete", "pod", "bus-nats-0", "--grace-period=0", "--force")
    bus.kubectl("delete", "pod", dispatchers[0]["metadata"]["name"], "--grace-period=0", "--force")
    await publishing

    def assert_all_received() -> None:
        ids = [each["headers"]["ce-id"] for each in received_events(bus, "/many")]
        assert list(dict.fromkeys(ids)) == [f"many-{number}" for number in range(count)], ids[-5:]

    await eventually(assert_all_received, within=180)

    def assert_recreated() -> None:
        assert bus.get("pods", "bus-nats-0")["metadata"]["uid"] != before

    await eventually(assert_recreated, within=120)


def _some(bus: KubectlClient) -> None:
    assert len(received_events(bus, "/many")) >= 10


@pytest.mark.timeout(900)
async def test_backend_deletion_waits_for_its_subscriptions(bus: KubectlClient):
    bus.kubectl("delete", "evb", "bus", "--wait=false")

    def assert_refused() -> None:
        text = json.dumps(bus.get("evb", "bus")["status"])
        assert "standard" in text, text

    await eventually(assert_refused, within=60)
    bus.kubectl("delete", "evsub", "--all", "--timeout=120s")
    bus.kubectl("wait", "evb/bus", "--for=delete", "--timeout=240s")


async def test_operator_log_has_no_forbidden_requests(operator: KubectlClient):
    assert find_forbidden_requests(operator) == []
