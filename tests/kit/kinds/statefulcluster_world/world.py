"""Random sequences of disturbances around the real controller, and what must be true in the end."""

import asyncio
import random
import secrets
from typing import Any

from kit.clock import VirtualClock
from kit.kinds.statefulcluster_world.checks import GIVE_UP, NAME, Checks, Violation
from kit.kinds.statefulcluster_world.cluster import BAD, Nodes, quietly
from kit.kinds.statefulcluster_world.process import Process
from kit.kinds.statefulcluster_world.server import (
    BUDGET,
    CLAIM,
    CLASS,
    CLUSTER,
    NODE,
    POD,
    ServerOfWorld,
    Write,
    claims_of,
    is_leaving,
    is_ready,
)
from quintet.apis.meta import JsonObject

LABELS = {"app": "web"}
_STEPS = (0.5, 1.0, 2.0, 5.0, 15.0, 40.0)


class World:
    """One sequence: a StatefulCluster, what happens to it, and the controller that looks after it."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.clock = VirtualClock()
        self.server = ServerOfWorld(self.clock)
        self.rule = {
            "policy": rng.choice(("After", "After", "After", "Ask", "Never")),
            "after": rng.choice(("10m", "2m")),
        }
        self.nodes = Nodes(self.server, self.clock, rng, rng.choice(("host", "host", "zone", "any")))
        self.nodes.quorum = rng.choice((0.0, 0.0, 3.0, 12.0))
        self.replicas = rng.choice((1, 2, 3, 3, 3, 5))
        self.lags = rng.random() < 0.4
        self.fault, self.fault_in = "", 0
        self.refuses_growth = rng.random() < 0.15
        self.image = 1
        self.trail: list[str] = []
        strategy: JsonObject = {"type": rng.choice(("RollingUpdate",) * 4 + ("OnDelete",))}
        if strategy["type"] == "RollingUpdate":
            partition = rng.choice((0, 0, 0, 1))
            strategy["rollingUpdate"] = {"partition": partition, "maxUnavailable": rng.choice((1, 1, 2))}
        self.server.create(
            CLASS, {"metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        self.server.create(CLUSTER, self._cluster(strategy))
        self.checks = Checks(self.server, self.nodes, self.rule)
        self.process = Process(self.server, self.clock)
        self.budget(rng.choice((0, 0, max(0, self.replicas - 1))))

    def _cluster(self, strategy: JsonObject) -> JsonObject:
        resources = {"requests": {"storage": "1Gi"}}
        return {
            "apiVersion": "enge.me/v1alpha1",
            "kind": "StatefulCluster",
            "metadata": {"name": NAME, "annotations": {}},
            "spec": {
                "replicas": self.replicas,
                "serviceName": NAME,
                "selector": {"matchLabels": LABELS},
                "podManagementPolicy": self.rng.choice(("OrderedReady", "Parallel")),
                "updateStrategy": strategy,
                "template": _template("web:1"),
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"storageClassName": "local", "resources": resources},
                    }
                ],
                "cluster": {"dataLoss": self.rule},
            },
        }

    async def run(self) -> None:
        """Run the sequence; raises `Violation`."""
        await self.start_process()
        try:
            for _ in range(14):
                await self.step(3.0)
            for _ in range(self.rng.randint(6, 30)):
                if self.rng.random() < 0.5:
                    self.disturb()
                await self.step(self.rng.choice(_STEPS))
            await self.calm_down()
        finally:
            await self.process.stop()

    async def start_process(self) -> None:
        self.process = Process(self.server, self.clock)
        self.process.transport.fault = self.choose_fault
        self.process.start()

    async def step(self, seconds: float) -> None:
        """Let time pass: nodes work, watches deliver, the controller reconciles."""
        self.nodes.step()
        self.checks.observe(behind=self.process.is_behind(POD))
        lags = self.lags and self.rng.random() < 0.6
        self.checks.current = not lags
        self.process.deliver(self.rng if lags else None)
        await self.clock.advance(0.0)
        # What the controller wrote comes back to it, and it goes on, before time passes.
        for _ in range(0 if lags else 3):
            self.process.deliver()
            await self.clock.advance(0.0)
        self.checks.current = False
        await self.clock.advance(seconds)
        self.process.check()
        if self.checks.violation is not None:
            raise self.checks.violation
        if self.process.transport.crashed.is_set():
            await self.process.stop()
            self.note("the process starts again")
            await self.start_process()

    def note(self, text: str) -> None:
        self.trail.append(f"{self.clock.monotonic():7.1f} {text}")

    def choose_fault(self, write: Write) -> str:
        """Return what happens to a write of the controller."""
        grows = "resources" in (write.body.get("spec") or {}) and write.method == "PATCH"
        shown = {key: value for key, value in write.body.items() if key not in ("status", "spec")}
        if write.part != "status":
            self.note(
                f"  {write.method} {write.kind}/{write.name or shown.get('metadata', {}).get('name')} {write.part}"
            )
        else:
            plan = (write.body.get("status") or {}).get("plan") or [{}]
            self.note(
                f"  status: {plan[0].get('action')} {plan[0].get('reason')}: {plan[0].get('message', '')[:160]}"
            )
        if write.kind == CLAIM and grows and self.refuses_growth:
            return "400"
        if not self.fault:
            return ""
        self.fault_in -= 1
        if self.fault_in > 0:
            return ""
        fault, self.fault = self.fault, ""
        self.note(f"fault: {fault}")
        return fault

    # Disturbances.

    def disturb(self) -> None:
        acts = (
            self.change_image, self.change_image, self.scale, self.blip, self.blip, self.delete_pod, self.fail_pods,
            self.fail_node, self.lose_node, self.lose_pool, self.return_nodes, self.set_fault, self.set_fault,
            self.change_budget, self.grow, self.unlabel_claim, self.back_up, self.hold,
        )  # fmt: skip
        act = self.rng.choice(acts)
        self.note(act.__name__)
        act()

    def change_image(self) -> None:
        self.image += 1
        name = f"web:{self.image}" + (f"-{BAD}" if self.rng.random() < 0.25 else "")
        self.patch_spec({"template": _template(name)})

    def scale(self) -> None:
        self.replicas = max(1, self.replicas + self.rng.choice((-2, -1, 1, 2)))
        self.patch_spec({"replicas": self.replicas})

    def blip(self) -> None:
        seconds = self.rng.choice((2.0, 3.0, 12.0, 45.0))
        pods = self.server.all(POD)
        for pod in pods if self.rng.random() < 0.5 else self.rng.sample(pods, min(1, len(pods))):
            self.nodes.blips[pod["metadata"]["uid"]] = self.clock.monotonic() + seconds

    def delete_pod(self) -> None:
        for pod in self.rng.sample(self.server.all(POD), min(1, len(self.server.all(POD)))):
            self.server.delete(POD, pod["metadata"]["name"])

    def fail_pods(self) -> None:
        """Let kubelets end pods, as at a graceful shutdown of a node."""
        every = self.rng.random() < 0.4
        for pod in self.server.all(POD):
            if (every or self.rng.random() < 0.3) and pod["spec"].get("nodeName") and not is_leaving(pod):
                ended = {"type": "Ready", "status": "False", "lastTransitionTime": self.server.now()}
                status = {"phase": "Failed", "conditions": [ended]}
                self.server.patch(POD, pod["metadata"]["name"], {"status": status})

    def fail_node(self) -> None:
        self.nodes.fail_node(self.rng.choice(("n0", "n1", "n2")))

    def lose_node(self) -> None:
        self.nodes.remove_node(self.rng.choice(("n0", "n1", "n2")))

    def lose_pool(self) -> None:
        for name in list(self.server.objects[NODE]):
            self.nodes.remove_node(name)

    def return_nodes(self) -> None:
        for name in ("n0", "n1", "n2", "n3"):
            self.nodes.add_node(name)

    def set_fault(self) -> None:
        self.fault = self.rng.choice(("crash before", "crash after", "lost answer", "500", "409"))
        self.fault_in = self.rng.randint(1, 4)

    def change_budget(self) -> None:
        self.budget(self.rng.choice((0, self.replicas - 1, self.replicas)))

    def budget(self, minimum: int) -> None:
        quietly(self.server.delete, BUDGET, "budget")
        spec = {"minAvailable": minimum, "selector": {"matchLabels": LABELS}}
        self.server.create(BUDGET, {"metadata": {"name": "budget"}, "spec": spec})

    def grow(self) -> None:
        (template,) = self.checks.cluster["spec"]["volumeClaimTemplates"]
        size = int(template["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) + 1
        resources = {"requests": {"storage": f"{size}Gi"}}
        spec = {"storageClassName": "local", "resources": resources}
        self.patch_spec({"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]})

    def unlabel_claim(self) -> None:
        """Remove the label by which the controller finds a claim, as a careless tool does."""
        for claim in self.rng.sample(self.server.all(CLAIM), min(1, len(self.server.all(CLAIM)))):
            patch = {"metadata": {"labels": {"enge.me/cluster": None}}}
            self.server.patch(CLAIM, claim["metadata"]["name"], patch)

    def back_up(self) -> None:
        """Let a pod of somebody else mount a claim: a backup."""
        for claim in self.rng.sample(self.server.all(CLAIM), min(1, len(self.server.all(CLAIM)))):
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            body = {
                "metadata": {"name": "backup"},
                "spec": {"volumes": [volume], "containers": [{"image": "b"}]},
            }
            if self.server.get(POD, "backup") is None:
                self.server.create(POD, body)

    def hold(self) -> None:
        feed = self.rng.choice(self.process.feeds)
        feed.held = self.lags and not feed.held

    def patch_spec(self, spec: JsonObject) -> None:
        self.server.patch(CLUSTER, NAME, {"spec": spec})

    # The end.

    async def calm_down(self) -> None:
        """End all disturbances, and wait for the desired state."""
        self.note("calm")
        self.lags, self.fault = False, ""
        for feed in self.process.feeds:
            feed.held = False
        self.return_nodes()
        self.image += 1
        self.patch_spec({"template": _template(f"web:{self.image}")})
        quietly(self.server.delete, POD, "backup", grace=0)
        room = self.rng.choice((0, 0, self.replicas - 1))
        self.budget(room)
        for number in range(300):
            await self.step(1.5 if number < 150 else 30.0)
            if self.checks.cluster["spec"]["updateStrategy"]["type"] == "OnDelete" and number == 5:
                self.delete_outdated()
            if number == 190:
                self.give_consent()
            if number % 10 == 9 and not self.problem():
                return
        raise Violation("Stuck", self.problem())

    def delete_outdated(self) -> None:
        for pod in self.server.all(POD):
            if pod["spec"]["containers"][0]["image"] != f"web:{self.image}":
                quietly(self.server.delete, POD, pod["metadata"]["name"])

    def give_consent(self) -> None:
        """Agree to give up what the controller asks for, and nothing else."""
        for condition in (self.checks.cluster.get("status") or {}).get("conditions") or ():
            _, found, uids = condition["message"].partition(f"{GIVE_UP}=")
            if found:
                self.note(f"consent to {uids}")
                self.server.patch(CLUSTER, NAME, {"metadata": {"annotations": {GIVE_UP: uids}}})

    def problem(self) -> str:
        """Return what is not as it should be; empty if everything is."""
        pods = self.checks.pods()
        ready = [pod for pod in pods if is_ready(pod) and not is_leaving(pod)]
        if len(pods) != self.replicas or len(ready) != self.replicas:
            return f"{len(ready)} of {len(pods)} pods are ready, {self.replicas} desired\n{self}"
        image = f"web:{self.image}"
        outdated = [pod for pod in ready if pod["spec"]["containers"][0]["image"] != image]
        strategy = self.checks.cluster["spec"]["updateStrategy"]
        kept = len(pods) if strategy["type"] == "OnDelete" else strategy["rollingUpdate"]["partition"]
        if len(outdated) > kept:
            return f"{len(outdated)} pods have an older template, {kept} may\n{self}"
        mounts = [claim for pod in pods for claim in claims_of(pod)]
        if len(set(mounts)) != len(mounts):
            return f"pods share claims\n{self}"
        conditions = {each["type"]: each for each in self.checks.cluster["status"]["conditions"]}
        if conditions["Ready"]["status"] != "True":
            return f"Ready is {conditions['Ready']}\n{self}"
        return ""

    def __str__(self) -> str:
        return "\n".join(self.trail[-60:])


def _template(image: str) -> JsonObject:
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "main", "image": image, "volumeMounts": mounts}
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}


def run_sequence(seed: int) -> Violation | None:
    """Run one sequence; return the violation that it found."""
    world = World(seed)
    choose: Any = secrets.choice
    secrets.choice = world.rng.choice
    random.seed(seed)
    try:
        asyncio.run(world.run())
    except Violation as violation:
        violation.add_note(f"seed {seed}\n{world}")
        return violation
    finally:
        secrets.choice = choose
    return None
