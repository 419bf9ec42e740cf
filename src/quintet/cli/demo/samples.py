"""One object of each kind out of `examples`, and the proof that it works; run by `play`.

A proof waits for what the object promises, then uses it as a user would, and returns what was seen. Without
a node nothing can be used: then it shows what the controller has made of the object.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
# The first half of an event's way: a pod hands it to the publisher.
_PUBLISH = f"""
const headers = {{'ce-specversion': '1.0', 'ce-source': 'shop', 'ce-type': '{_EVENT}', 'ce-id': '%s',
  'content-type': 'application/json'}}
const body = '{{"order": 17}}'
fetch('http://orders-publisher-proxy.{NAMESPACE}.svc/publish', {{method: 'POST', headers, body}})
  .then(answer => console.log(answer.status))
"""


@dataclass(slots=True)
class Scene:
    """Where a sample is shown: a namespace, what is said meanwhile, and what is printed at the end."""

    kubectl: Kubectl
    say: Callable[[str], None]
    shown: list[str] = field(default_factory=list)

    async def apply(self, *names: str) -> None:
        """Apply files of the examples; webhooks may be a moment behind their controllers."""
        for name in names:
            await self.kubectl.retry("apply", "-f", str(find_resource(f"examples/{name}")))

    async def wait(self, thing: str, state: str) -> None:
        """Wait for a state, and say so."""
        self.say(f"waiting until {thing} {describe_condition(state)}")
        await self.kubectl.wait(thing, state)

    async def show(self, *arguments: str) -> None:
        """Keep a call and its answer for the end."""
        self.shown.append(await self.kubectl.show(*arguments))

    def note(self, what: str, answer: str) -> None:
        """Keep something that was done or asked, and its answer, for the end."""
        self.shown.append(f"{what}\n{answer.strip()}".rstrip())


Proof = Callable[[Scene], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One object, and how it is shown."""

    controller: str
    kind: str
    name: str
    about: str
    prove: Proof
    """With pods: use it, and return what was seen."""
    unfold: Proof
    """Without pods: return what was made of it."""
    hints: tuple[tuple[str, str], ...]
    """What to look at and try afterwards."""


async def _jsonserver(scene: Scene) -> str:
    await _made_jsonserver(scene)
    await scene.wait("jsonserver/app-my-server", "condition=Ready")
    scene.say(f"asking {_SERVER} from inside a pod")
    # By the name of the Service: the answer proves cluster DNS, the Service and the pods together.
    script = _FETCH.format(_SERVER)
    answer = await scene.kubectl.retry("exec", "deployment/app-my-server", "--", "node", "-e", script)
    await scene.show("get", "jsonserver", "app-my-server")
    await scene.show("get", "deployments,pods,services", "-l", "app=app-my-server")
    scene.note(f"GET {_SERVER} from inside a pod:", answer)
    return f"2 pods serve {len(json.loads(answer))} people behind its Service"


async def _made_jsonserver(scene: Scene) -> str:
    await scene.apply("01-jsonserver/jsonserver.yaml")
    await scene.wait("jsonserver/app-my-server", "condition=Synced")
    return "ConfigMap, Deployment and Service are made"


async def _unfolded_jsonserver(scene: Scene) -> str:
    seen = await _made_jsonserver(scene)
    await scene.show("get", "jsonserver", "app-my-server")
    await scene.show("get", "deployments,services,configmaps", "-l", "app=app-my-server")
    return seen


async def _eventing(scene: Scene) -> str:
    await scene.apply("02-eventingbackend/orders.yaml")
    await scene.wait("eventingbackend/orders", "condition=Ready")
    await scene.wait("subscriptions.eventing.kyma-project.io/orders", "condition=Ready")
    await scene.kubectl.wait_for_rollout("deployment/orders-sink")
    identity = f"order-{secrets.token_hex(3)}"
    scene.say(f"publishing the event {identity} from a pod")
    inside = ("exec", "deployment/orders-sink", "--", "node", "-e")
    await scene.kubectl.retry(*inside, _PUBLISH % identity, want="204")
    await scene.kubectl.retry("logs", "deployment/orders-sink", "--tail=1", want=identity)
    await scene.show("get", "eventingbackends,subscriptions.eventing.kyma-project.io")
    scene.note(f"POST http://orders-publisher-proxy/publish from inside a pod, ce-id: {identity}:", "204")
    await scene.show("logs", "deployment/orders-sink", "--tail=1")
    return "an event was published, kept by JetStream, delivered to a pod"


async def _unfolded_eventing(scene: Scene) -> str:
    await scene.apply("02-eventingbackend/orders.yaml")
    await scene.wait("statefulset/orders-nats", "create")
    await scene.show("get", "eventingbackend", "orders")
    await scene.show("get", "statefulsets,services", "-l", "eventing.kyma-project.io/backend=orders-nats")
    return "a NATS server is asked for"


async def _statefulcluster(scene: Scene) -> str:
    await scene.apply("03-statefulcluster/journal.yaml")
    await scene.wait("statefulcluster/journal", "condition=Ready")
    scene.say("writing a record, then deleting the pod that took it")
    # Of an earlier round there may be a record already; the new one tells them apart.
    word = f"hello-{secrets.token_hex(3)}"
    victim, claim = await _a_replica(scene.kubectl)
    inside = ("exec", victim, "--", "kv", "-server", "nats://journal:4222")
    await scene.kubectl.retry(*inside, "-replicas", "3", "put", "greeting", word)
    await scene.show("get", "statefulcluster", "journal")
    scene.note(f"$ kubectl exec {victim} -- kv … put greeting {word}", "")
    await scene.show("delete", "pod", victim)
    heir = await _heir(scene.kubectl, victim, claim)
    await scene.kubectl.retry("exec", heir, "--", "kv", "get", "greeting", want=word)
    await scene.show("exec", heir, "--", "kv", "get", "greeting")
    scene.note(f"({heir} came in the place of {victim}, and has its claim {claim})", "")
    return "3 servers; a deleted pod was replaced, with its volume and records"


async def _a_replica(kubectl: Kubectl) -> tuple[str, str]:
    """A pod and its claim."""
    status = (await kubectl.read("statefulcluster", "journal"))["status"]
    name = status["replicaNames"][0]
    return name, next((each["name"] for each in status["claims"] if each.get("replica") == name), "")


async def _heir(kubectl: Kubectl, victim: str, claim: str) -> str:
    """Wait for the pod that has the claim now, and runs."""
    for _ in range(ROUNDS):
        status = (await kubectl.read("statefulcluster", "journal"))["status"]
        user = next((each.get("replica", "") for each in status["claims"] if each["name"] == claim), "")
        if user not in ("", victim) and status["readyReplicas"] == 3:
            return str(user)
        await asyncio.sleep(PAUSE)
    raise LocalError(
        f"statefulcluster/journal: nothing has taken over claim {claim} of pod {victim}",
        f"kubectl --namespace {NAMESPACE} describe statefulcluster journal",
    )


async def _unfolded_statefulcluster(scene: Scene) -> str:
    await scene.apply("03-statefulcluster/journal.yaml")
    await scene.wait("statefulcluster/journal", "jsonpath={.status.replicas}=1")
    await scene.show("get", "statefulcluster", "journal")
    await scene.show("get", "pods,persistentvolumeclaims", "-l", "app.kubernetes.io/name=journal")
    return "a pod and its claim are made, the others wait for it"


async def _casconfig(scene: Scene) -> str:
    return await _inject(scene, pods=True)


async def _unfolded_casconfig(scene: Scene) -> str:
    return await _inject(scene, pods=False)


async def _inject(scene: Scene, *, pods: bool) -> str:
    await scene.apply("04-casconfig/shop.yaml")
    # An earlier demo may have been interrupted while it was there.
    await scene.kubectl.call("delete", "casconfig", "logging", "--ignore-not-found")
    if pods:
        await scene.kubectl.wait_for_rollout("deployment/books")
    before = await _templates(scene.kubectl)
    await scene.apply("04-casconfig/casconfig.yaml")
    await scene.wait("casconfig/logging", "condition=Ready")
    await scene.show("get", "casconfig", "logging")
    scene.note(f"$ quintet why logging Deployment/books --namespace {NAMESPACE}", await _why(scene))
    if pods:
        await scene.kubectl.wait_for_rollout("deployment/books")
        level = ("exec", "deployment/books", "-c", "app", "--", "printenv", "LOG_LEVEL")
        await scene.kubectl.retry(*level, want="debug")
        await scene.show(*level)
    scene.say("deleting casconfig/logging, which undoes it")
    await scene.show("delete", "casconfig", "logging")
    after = await _templates(scene.kubectl)
    if after != before:
        raise LocalError(
            "casconfig/logging is gone, but Deployments are not as they were before it",
            f"kubectl --namespace {NAMESPACE} get deployments -l team=shop -o yaml",
        )
    scene.note(f"({' and '.join(before)} are as they were, to the letter)", "")
    return "a variable and a sidecar in 2 Deployments, and out again"


async def _templates(kubectl: Kubectl) -> dict[str, Any]:
    """Name → the pods that a Deployment asks for."""
    found = await kubectl.read("deployments", "-l", "team=shop")
    return {each["metadata"]["name"]: each["spec"]["template"] for each in found["items"]}


async def _why(scene: Scene) -> str:
    command = [*quintet("why"), "logging", "Deployment/books", "--namespace", NAMESPACE]
    code, answer, said = await run_program(command, scene.kubectl.environment)
    if code != 0:
        raise LocalError(f"quintet why: {(said or answer).strip()}", "kubectl describe casconfig logging")
    return answer


def quintet(*arguments: str) -> list[str]:
    """The command itself, as a process of its own."""
    return [sys.executable, "-P", "-c", "from quintet.cli.main import main; main()", *arguments]


async def _checkup(scene: Scene) -> str:
    await scene.apply("05-checkup/checkups.yaml")
    for name in ("echo", "cluster-basics"):
        await scene.wait(f"checkup/{name}", "condition=Succeeded")
    await scene.show("get", "checkups", "echo", "cluster-basics")
    results = (await scene.kubectl.read("checkup", "cluster-basics"))["status"]["resultMap"]
    lines = "\n".join(f"{name}: {value}" for name, value in sorted(results.items()))
    scene.note("status.resultMap of cluster-basics:", lines)
    return f"passed; cluster DNS answers in {results.get('dnsMedianMs', 'unknown')} ms"


async def _unfolded_checkup(scene: Scene) -> str:
    await scene.apply("05-checkup/checkups.yaml")
    await scene.wait("checkup/echo", "jsonpath={.status.job}")
    await scene.show("get", "checkups")
    await scene.show("get", "jobs")
    return "Jobs are made"


SAMPLES = (
    Sample(
        "jsonserver",
        "JsonServer",
        "app-my-server",
        "an object becomes pods that serve its data",
        _jsonserver,
        _unfolded_jsonserver,
        (
            ("more pods", "scale jsonserver app-my-server --replicas 3"),
            ("meddle", "delete service app-my-server   (and see it come back)"),
            (
                "a mistake",
                """patch jsonserver app-my-server --type merge -p '{"spec": {"jsonConfig": "[]"}}'""",
            ),
        ),
    ),
    Sample(
        "checkup",
        "Checkup",
        "cluster-basics",
        "an image asks the cluster questions, and its answers are kept",
        _checkup,
        _unfolded_checkup,
        (("a checkup that failed", "describe checkup echo-fails"),),
    ),
    Sample(
        "casconfig",
        "CASConfig",
        "logging",
        "configuration goes into Deployments of others, and out again",
        _casconfig,
        _unfolded_casconfig,
        (("inject again", f"apply -f {find_resource('examples/04-casconfig/casconfig.yaml')}"),),
    ),
    Sample(
        "eventing",
        "EventingBackend",
        "orders",
        "an event goes all the way",
        _eventing,
        _unfolded_eventing,
        (("what a backend uses", "get eventingbackend orders -o yaml"),),
    ),
    Sample(
        "statefulcluster",
        "StatefulCluster",
        "journal",
        "servers with data that outlives each of them",
        _statefulcluster,
        _unfolded_statefulcluster,
        (("fewer servers", "scale statefulcluster journal --replicas 1"),),
    ),
)
