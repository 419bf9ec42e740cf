"""One object of each kind from `examples`, with the steps that show that it works.

With pods, a sample uses the object as a user would. Without pods, it shows the objects that the controller
created.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from quintet import kinds
from quintet.local.errors import LocalError
from quintet.local.kubectl import describe_condition, run_program
from quintet.local.paths import find_resource

if TYPE_CHECKING:
    from quintet.local.kubectl import Kubectl

NAMESPACE = "quintet-demo"
ROUNDS, PAUSE = 300, 1.0
_FETCH = "fetch('{}').then(answer => answer.text()).then(console.log)"
_SERVER = f"http://app-my-server.{NAMESPACE}.svc:3000/people"
_EVENT = "order.created.v1"
# Publishes an event from inside a pod.
_PUBLISH = f"""
const headers = {{'ce-specversion': '1.0', 'ce-source': 'shop', 'ce-type': '{_EVENT}', 'ce-id': '%s',
  'content-type': 'application/json'}}
const body = '{{"order": 17}}'
fetch('http://orders-publisher-proxy.{NAMESPACE}.svc/publish', {{method: 'POST', headers, body}})
  .then(answer => console.log(answer.status))
"""


@dataclass(slots=True)
class SampleRun:
    """A running sample: its namespace, its progress and its output."""

    kubectl: Kubectl
    report: Callable[[str], None]
    output: list[str] = field(default_factory=list)

    async def apply(self, *names: str) -> None:
        """Apply files of the examples; retry while webhooks are not ready."""
        for name in names:
            await self.kubectl.retry("apply", "-f", str(find_resource(f"examples/{name}")))

    async def wait(self, thing: str, state: str) -> None:
        """Wait for a state and report it."""
        self.report(f"waiting until {thing} {describe_condition(state)}")
        await self.kubectl.wait(thing, state)

    async def show(self, *arguments: str) -> None:
        """Add a kubectl command and its output to the output of the sample."""
        self.output.append(await self.kubectl.show(*arguments))

    def add_output(self, what: str, answer: str) -> None:
        """Add an action and its result to the output of the sample."""
        self.output.append(f"{what}\n{answer.strip()}".rstrip())


SampleFunction = Callable[[SampleRun], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """An example object and the steps that show that it works."""

    controller: str
    kind: str
    name: str
    about: str
    run_with_pods: SampleFunction
    """With pods: use the object and return a summary."""
    run_without_pods: SampleFunction
    """Without pods: return a summary of the created objects."""
    hints: tuple[tuple[str, str], ...]
    """Commands to try afterwards."""


async def _jsonserver(run: SampleRun) -> str:
    await _create_jsonserver(run)
    await run.wait("jsonserver/app-my-server", "condition=Ready")
    run.report(f"requesting {_SERVER} from inside a pod")
    # Uses the name of the Service, which tests cluster DNS, the Service and the pods.
    script = _FETCH.format(_SERVER)
    answer = await run.kubectl.retry("exec", "deployment/app-my-server", "--", "node", "-e", script)
    await run.show("get", "jsonserver", "app-my-server")
    await run.show("get", "deployments,pods,services", "-l", "app=app-my-server")
    run.add_output(f"GET {_SERVER} from inside a pod:", answer)
    return f"2 pods serve {len(json.loads(answer))} people behind its Service"


async def _create_jsonserver(run: SampleRun) -> str:
    await run.apply("01-jsonserver/jsonserver.yaml")
    await run.wait("jsonserver/app-my-server", "condition=Synced")
    return "ConfigMap, Deployment and Service are created"


async def _jsonserver_without_pods(run: SampleRun) -> str:
    seen = await _create_jsonserver(run)
    await run.show("get", "jsonserver", "app-my-server")
    await run.show("get", "deployments,services,configmaps", "-l", "app=app-my-server")
    return seen


async def _eventing(run: SampleRun) -> str:
    await run.apply("02-eventingbackend/orders.yaml")
    await run.wait("eventingbackend/orders", "condition=Ready")
    await run.wait("subscriptions.eventing.kyma-project.io/orders", "condition=Ready")
    await run.kubectl.wait_for_rollout("deployment/orders-sink")
    identity = f"order-{secrets.token_hex(3)}"
    run.report(f"publishing the event {identity} from a pod")
    inside = ("exec", "deployment/orders-sink", "--", "node", "-e")
    await run.kubectl.retry(*inside, _PUBLISH % identity, want="204")
    await run.kubectl.retry("logs", "deployment/orders-sink", "--tail=1", want=identity)
    await run.show("get", "eventingbackends,subscriptions.eventing.kyma-project.io")
    run.add_output(f"POST http://orders-publisher-proxy/publish from inside a pod, ce-id: {identity}:", "204")
    await run.show("logs", "deployment/orders-sink", "--tail=1")
    return "an event was published, stored in JetStream and delivered to a pod"


async def _eventing_without_pods(run: SampleRun) -> str:
    await run.apply("02-eventingbackend/orders.yaml")
    await run.wait("statefulset/orders-nats", "create")
    await run.show("get", "eventingbackend", "orders")
    await run.show("get", "statefulsets,services", "-l", "eventing.kyma-project.io/backend=orders-nats")
    return "a NATS server is created"


async def _statefulcluster(run: SampleRun) -> str:
    await run.apply("03-statefulcluster/journal.yaml")
    await run.wait("statefulcluster/journal", "condition=Ready")
    run.report("writing a record, then deleting the pod that stored it")
    # A random value, because a record of an earlier demo may exist.
    word = f"hello-{secrets.token_hex(3)}"
    victim, claim = await _find_replica(run.kubectl)
    inside = ("exec", victim, "--", "kv", "-server", "nats://journal:4222")
    await run.kubectl.retry(*inside, "-replicas", "3", "put", "greeting", word)
    await run.show("get", "statefulcluster", "journal")
    run.add_output(f"$ kubectl exec {victim} -- kv … put greeting {word}", "")
    await run.show("delete", "pod", victim)
    heir = await _wait_for_successor(run.kubectl, victim, claim)
    await run.kubectl.retry("exec", heir, "--", "kv", "get", "greeting", want=word)
    await run.show("exec", heir, "--", "kv", "get", "greeting")
    run.add_output(f"({heir} replaced {victim} and uses its claim {claim})", "")
    return "3 servers; a deleted pod was replaced and kept its volume and records"


async def _find_replica(kubectl: Kubectl) -> tuple[str, str]:
    """Return the name of a pod and of its claim."""
    status = (await kubectl.read("statefulcluster", "journal"))["status"]
    name = status["replicaNames"][0]
    return name, next((each["name"] for each in status["claims"] if each.get("replica") == name), "")


async def _wait_for_successor(kubectl: Kubectl, victim: str, claim: str) -> str:
    """Wait for the running pod that uses the claim now, and return its name."""
    for _ in range(ROUNDS):
        status = (await kubectl.read("statefulcluster", "journal"))["status"]
        user = next((each.get("replica", "") for each in status["claims"] if each["name"] == claim), "")
        if user not in ("", victim) and status["readyReplicas"] == 3:
            return str(user)
        await asyncio.sleep(PAUSE)
    raise LocalError(
        f"statefulcluster/journal: no pod uses claim {claim} of the deleted pod {victim}",
        f"kubectl --namespace {NAMESPACE} describe statefulcluster journal",
    )


async def _statefulcluster_without_pods(run: SampleRun) -> str:
    await run.apply("03-statefulcluster/journal.yaml")
    await run.wait("statefulcluster/journal", "jsonpath={.status.replicas}=1")
    await run.show("get", "statefulcluster", "journal")
    await run.show("get", "pods,persistentvolumeclaims", "-l", "app.kubernetes.io/name=journal")
    return "a pod and its claim are created, the others wait for it"


async def _casconfig(run: SampleRun) -> str:
    return await _inject(run, pods=True)


async def _casconfig_without_pods(run: SampleRun) -> str:
    return await _inject(run, pods=False)


async def _inject(run: SampleRun, *, pods: bool) -> str:
    await run.apply("04-casconfig/shop.yaml")
    # An interrupted demo may have left it.
    await run.kubectl.call("delete", "casconfig", "logging", "--ignore-not-found")
    if pods:
        await run.kubectl.wait_for_rollout("deployment/books")
    before = await _templates(run.kubectl)
    await run.apply("04-casconfig/casconfig.yaml")
    await run.wait("casconfig/logging", "condition=Ready")
    await run.show("get", "casconfig", "logging")
    run.add_output(f"$ quintet why logging Deployment/books --namespace {NAMESPACE}", await _why(run))
    if pods:
        await run.kubectl.wait_for_rollout("deployment/books")
        level = ("exec", "deployment/books", "-c", "app", "--", "printenv", "LOG_LEVEL")
        await run.kubectl.retry(*level, want="debug")
        await run.show(*level)
    run.report("deleting casconfig/logging, which undoes its changes")
    await run.show("delete", "casconfig", "logging")
    after = await _templates(run.kubectl)
    if after != before:
        raise LocalError(
            "casconfig/logging is deleted, but its changes are not undone",
            f"kubectl --namespace {NAMESPACE} get deployments -l team=shop -o yaml",
        )
    run.add_output(f"({' and '.join(before)} are restored exactly)", "")
    return "a variable and a sidecar added to 2 Deployments and removed again"


async def _templates(kubectl: Kubectl) -> dict[str, Any]:
    """Return the pod templates of the Deployments by name."""
    found = await kubectl.read("deployments", "-l", "team=shop")
    return {each["metadata"]["name"]: each["spec"]["template"] for each in found["items"]}


async def _why(run: SampleRun) -> str:
    command = [*quintet_command("why"), "logging", "Deployment/books", "--namespace", NAMESPACE]
    code, answer, said = await run_program(command, run.kubectl.environment)
    if code != 0:
        raise LocalError(f"quintet why: {(said or answer).strip()}", "kubectl describe casconfig logging")
    return answer


def quintet_command(*arguments: str) -> list[str]:
    """Return the command line that runs quintet as another process."""
    return [sys.executable, "-P", "-c", "from quintet.cli.main import main; main()", *arguments]


async def _checkup(run: SampleRun) -> str:
    await run.apply("05-checkup/checkups.yaml")
    for name in ("echo", "cluster-basics"):
        await run.wait(f"checkup/{name}", "condition=Succeeded")
    await run.show("get", "checkups", "echo", "cluster-basics")
    results = (await run.kubectl.read("checkup", "cluster-basics"))["status"]["resultMap"]
    lines = "\n".join(f"{name}: {value}" for name, value in sorted(results.items()))
    run.add_output("status.resultMap of cluster-basics:", lines)
    return f"passed; cluster DNS responds in {results.get('dnsMedianMs', 'unknown')} ms"


async def _checkup_without_pods(run: SampleRun) -> str:
    await run.apply("05-checkup/checkups.yaml")
    await run.wait("checkup/echo", "jsonpath={.status.job}")
    await run.show("get", "checkups")
    await run.show("get", "jobs")
    return "Jobs are created"


JSONSERVER = Sample(
    "jsonserver",
    "JsonServer",
    "app-my-server",
    "an object whose pods serve its data",
    _jsonserver,
    _jsonserver_without_pods,
    (
        ("more pods", "scale jsonserver app-my-server --replicas 3"),
        ("break something", "delete service app-my-server   (the controller restores it)"),
        (
            "an invalid change",
            """patch jsonserver app-my-server --type merge -p '{"spec": {"jsonConfig": "[]"}}'""",
        ),
    ),
)
CHECKUP = Sample(
    "checkup",
    "Checkup",
    "cluster-basics",
    "an image tests the cluster and its results are kept",
    _checkup,
    _checkup_without_pods,
    (("a checkup that failed", "describe checkup echo-fails"),),
)
CASCONFIG = Sample(
    "casconfig",
    "CASConfig",
    "logging",
    "configuration injected into existing Deployments and removed again",
    _casconfig,
    _casconfig_without_pods,
    (("inject again", f"apply -f {find_resource('examples/04-casconfig/casconfig.yaml')}"),),
)
EVENTING = Sample(
    "eventing",
    "EventingBackend",
    "orders",
    "an event from its publisher to its sink",
    _eventing,
    _eventing_without_pods,
    (("effective configuration", "get eventingbackend orders -o yaml"),),
)
STATEFULCLUSTER = Sample(
    "statefulcluster",
    "StatefulCluster",
    "journal",
    "servers whose data survives each of them",
    _statefulcluster,
    _statefulcluster_without_pods,
    (("fewer servers", "scale statefulcluster journal --replicas 1"),),
)


def all_samples() -> tuple[Sample, ...]:
    """Return the samples of all kinds that have one."""
    return tuple(kinds.load(kind.demo) for kind in kinds.all_kinds() if kind.demo)
