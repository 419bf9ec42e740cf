"""Nodes, kubelets, scheduler, volumes and budgets of the simulated world."""

import random
from typing import Any

from kit.clock import VirtualClock
from kit.kinds.statefulcluster_world.server import (
    CLAIM,
    NODE,
    POD,
    VOLUME,
    Refused,
    ServerOfWorld,
    claims_of,
    condition,
    is_leaving,
    is_ready,
)
from quintet.apis.meta import JsonObject

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
BAD = "bad"
EVICTED_AFTER = 60.0


class Nodes:
    """What everything but the controller does, at each step of time."""

    def __init__(self, server: ServerOfWorld, clock: VirtualClock, rng: random.Random, affinity: str) -> None:
        self.server, self.clock, self.rng, self.affinity = server, clock, rng, affinity
        self.down: dict[str, float] = {}
        """Since when the kubelet of a node is gone."""
        self.content: dict[str, float] = {}
        """When a replica was last ready with a volume: such a volume has data."""
        self.blips: dict[str, float] = {}
        """Until when a pod is not ready, by uid."""
        self.ready_at: dict[str, float] = {}
        self.ends_at: dict[str, float] = {}
        self.left: set[str] = set()
        self.quorum = 0.0
        """How long the other pods are unready when one leaves."""
        self.slow = 8.0
        for name in ("n0", "n1", "n2", "n3"):
            self.add_node(name)

    def add_node(self, name: str) -> None:
        labels = {HOST: name, ZONE: "zone"}
        ready = {"type": "Ready", "status": "True"}
        body = {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [ready]}}
        if self.server.get(NODE, name) is None:
            self.server.create(NODE, body)
        else:
            self.server.patch(NODE, name, {"status": {"conditions": [ready]}})
        self.down.pop(name, None)

    def remove_node(self, name: str) -> None:
        """Delete a node and its pods, as a cloud does."""
        if self.server.get(NODE, name) is not None:
            self.server.delete(NODE, name)
        for pod in self.server.all(POD):
            if pod["spec"].get("nodeName") == name:
                self.server.delete(POD, pod["metadata"]["name"], grace=0)

    def fail_node(self, name: str) -> None:
        if self.server.get(NODE, name) is not None:
            self.down.setdefault(name, self.clock.monotonic())

    def is_alive(self, name: str) -> bool:
        return self.server.get(NODE, name) is not None and name not in self.down

    def reachable(self, claim: JsonObject) -> bool:
        """Return whether a live node can use the volume of a claim."""
        volume = self.server.get(VOLUME, (claim["spec"].get("volumeName") or ""))
        return volume is not None and bool(self._nodes_for(volume))

    def step(self) -> None:
        now = self.clock.monotonic()
        for name, since in self.down.items():
            node = self.server.get(NODE, name)
            if node is not None and now >= since + 5:
                stamp = {"type": "Ready", "status": "Unknown", "lastTransitionTime": self.server.now()}
                if condition(node, "Ready").get("status") == "True":
                    self.server.patch(NODE, name, {"status": {"conditions": [stamp]}})
        for pod in self.server.all(POD):
            self._step_pod(pod, now)
        for claim in self.server.all(CLAIM):
            if is_leaving(claim) and not self.server.mounting(claim["metadata"]["name"]):
                self.server.delete(CLAIM, claim["metadata"]["name"])

    def _step_pod(self, pod: JsonObject, now: float) -> None:
        name, uid, node = pod["metadata"]["name"], pod["metadata"]["uid"], pod["spec"].get("nodeName")
        if is_leaving(pod):
            due = self.ends_at.setdefault(uid, now + self.rng.uniform(0.5, 12.0))
            if node is None or (self.is_alive(node) and now >= due):
                self.server.delete(POD, name, grace=0)
            if self.quorum and uid not in self.left:
                self.left.add(uid)
                for peer in self.server.all(POD):
                    if peer["metadata"]["uid"] != uid:
                        self.blips[peer["metadata"]["uid"]] = now + self.quorum
            return
        if node is None:
            self._schedule(pod, now)
        elif not self.is_alive(node):
            since = self.down.get(node, now)
            self._set_ready(pod, False)
            if now >= since + EVICTED_AFTER:
                self.server.delete(POD, name)
        elif (pod["status"].get("phase")) not in ("Failed", "Succeeded"):
            self._run(pod, now)

    def _run(self, pod: JsonObject, now: float) -> None:
        uid = pod["metadata"]["uid"]
        if now < self.ready_at[uid]:
            return
        if BAD in pod["spec"]["containers"][0]["image"]:
            self._set_running(pod, waiting={"reason": "CrashLoopBackOff"})
            return
        if pod["status"].get("phase") == "Pending":
            self._set_running(pod)
            pod = self.server.get(POD, pod["metadata"]["name"]) or pod
        well = now >= self.blips.get(uid, 0.0)
        self._set_ready(pod, well)
        if well:
            for claim in claims_of(pod):
                found = self.server.get(CLAIM, claim)
                if found is not None:
                    self.content[found["spec"]["volumeName"]] = now

    def _set_running(self, pod: JsonObject, waiting: JsonObject | None = None) -> None:
        state: JsonObject = {"waiting": waiting} if waiting else {"running": {"startedAt": self.server.now()}}
        container = {"name": "main", "started": waiting is None, "state": state, "restartCount": 3}
        known = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting")
        if pod["status"].get("phase") == "Running" and (known is not None) == (waiting is not None):
            return
        status = {"phase": "Running", "containerStatuses": [container]}
        self.server.patch(POD, pod["metadata"]["name"], {"status": status})

    def _set_ready(self, pod: JsonObject, ready: bool) -> None:
        if is_ready(pod) is ready:
            return
        conditions = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.server.now()},
            {"type": "Ready", "status": str(ready), "lastTransitionTime": self.server.now()},
        ]
        self.server.patch(POD, pod["metadata"]["name"], {"status": {"conditions": conditions}})

    def _schedule(self, pod: JsonObject, now: float) -> None:
        claims = [self.server.get(CLAIM, name) for name in claims_of(pod)]
        nodes = {name for name in self.server.objects.get(NODE, {}) if self.is_alive(name)}
        why = "" if nodes else "no nodes"
        for claim in claims:
            if claim is None or is_leaving(claim) or claim["status"].get("phase") == "Lost":
                why = "claim not found"
                continue
            if (volume := claim["spec"].get("volumeName")) is not None:
                found = self.server.get(VOLUME, volume)
                nodes &= set(self._nodes_for(found)) if found is not None else set()
        if why or not nodes:
            stamp = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": why or "affinity",
            }
            if condition(pod, "PodScheduled").get("status") != "False":
                stamp["lastTransitionTime"] = self.server.now()
                self.server.patch(POD, pod["metadata"]["name"], {"status": {"conditions": [stamp]}})
            return
        load = [each["spec"].get("nodeName") for each in self.server.all(POD)]
        node = min(sorted(nodes), key=load.count)
        for claim in claims:
            if claim is not None and "volumeName" not in claim["spec"]:
                self._bind(claim, node)
        conditions = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.server.now()},
            {"type": "Ready", "status": "False", "lastTransitionTime": self.server.now()},
        ]
        status = {"startTime": self.server.now(), "conditions": conditions}
        self.server.patch(POD, pod["metadata"]["name"], {"spec": {"nodeName": node}, "status": status})
        self.ready_at[pod["metadata"]["uid"]] = now + self.rng.uniform(1.0, self.slow)

    def _bind(self, claim: JsonObject, node: str) -> None:
        name = f"pv-{claim['metadata']['uid'][-12:]}"
        key = {"host": HOST, "zone": ZONE}.get(self.affinity)
        term = {"key": key, "operator": "In", "values": [node if key == HOST else "zone"]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}} if key else None
        spec: JsonObject = {"nodeAffinity": affinity} if affinity else {}
        self.server.create(VOLUME, {"metadata": {"name": name}, "spec": spec})
        size = claim["spec"]["resources"]["requests"]["storage"]
        status = {"phase": "Bound", "capacity": {"storage": size}}
        patch = {"spec": {"volumeName": name}, "status": status}
        self.server.patch(CLAIM, claim["metadata"]["name"], patch)

    def _nodes_for(self, volume: JsonObject) -> list[str]:
        alive = [name for name in self.server.objects.get(NODE, {}) if self.is_alive(name)]
        affinity: Any = volume["spec"].get("nodeAffinity")
        if not affinity:
            return alive
        (expression,) = affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"]
        key, values = expression["key"], expression["values"]
        labels = {name: self.server.get(NODE, name)["metadata"]["labels"] for name in alive}  # type: ignore[index]
        return [name for name in alive if labels[name].get(key) in values]


def quietly(act: Any, *args: Any, **options: Any) -> None:
    """Do something that a user or a node does, unless the object is gone."""
    try:
        act(*args, **options)
    except Refused:
        return
