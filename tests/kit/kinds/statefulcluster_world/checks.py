"""What must hold at every write of the controller, whatever happens around it."""

import math
from typing import Any

from kit.kinds.statefulcluster_world.cluster import Nodes
from kit.kinds.statefulcluster_world.server import (
    CLAIM,
    CLUSTER,
    POD,
    ServerOfWorld,
    Write,
    claims_of,
    condition,
    is_leaving,
    is_ready,
)
from quintet.apis.meta import JsonObject

NAME = "web"
GRACE = 30.0
UNUSABLE, GIVE_UP = "enge.me/unusable", "enge.me/give-up-claims"
# A look at the volumes may be this old, and a cache of a healthy process lags by less.
TOLERANCE = 65.0


class Violation(AssertionError):
    """An invariant does not hold; `kind` names it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Checks:
    """Watches the writes of the controller with the knowledge of the whole world."""

    def __init__(self, server: ServerOfWorld, nodes: Nodes, rule: JsonObject) -> None:
        self.server, self.nodes, self.rule = server, nodes, rule
        self.unreachable: dict[str, float] = {}
        """Since when no live node reaches the volume of a claim with data."""
        self.released: dict[str, float] = {}
        self.mounted: set[str] = set()
        self.once_ready: set[str] = set()
        self.most_replicas: list[tuple[float, int]] = []
        self.current = True
        """Whether the caches of the process are up to date, so that it must not be wrong about pods."""
        self.violation: Violation | None = None
        """The first violation: an exception would only make the controller retry."""
        server.watchers.append(self.check)

    @property
    def now(self) -> float:
        return self.nodes.clock.monotonic()

    @property
    def cluster(self) -> JsonObject:
        found = self.server.get(CLUSTER, NAME)
        assert found is not None
        return found

    def observe(self, *, behind: bool) -> None:
        """Take note of what lasts: called at each step of time; `behind`: the process sees old pods."""
        self.most_replicas.append((self.now, self.cluster["spec"]["replicas"]))
        # The process cannot know the order of what it learns at once.
        mounted = self.mounted if behind else set[str]()
        for pod in self.pods():
            mounted |= set() if is_leaving(pod) else set(claims_of(pod))
            if is_ready(pod):
                self.once_ready.add(pod["metadata"]["uid"])
        self.mounted = mounted
        for claim in self.server.all(CLAIM):
            name = claim["metadata"]["name"]
            if name in mounted:
                self.released[name] = self.now
            if self.has_data(claim) and not self.nodes.reachable(claim):
                self.unreachable.setdefault(name, self.now)
            else:
                self.unreachable.pop(name, None)

    def has_data(self, claim: JsonObject) -> bool:
        return claim["spec"].get("volumeName") in self.nodes.content

    def check(self, write: Write, before: JsonObject | None, after: JsonObject | None) -> None:
        try:
            self._check(write, before, after)
        except Violation as violation:
            self.violation = self.violation or violation

    def _check(self, write: Write, before: JsonObject | None, after: JsonObject | None) -> None:
        match write.method, write.kind, write.part:
            case "POST", "pods", "":
                self._check_created(after)
            case ("POST", "pods", "eviction") | ("DELETE", "pods", ""):
                self._check_removed(before, voluntary=write.part == "eviction")
            case "PATCH", "persistentvolumeclaims", _:
                self._check_set_aside(before, after)
            case "DELETE", "persistentvolumeclaims", _:
                raise Violation("ClaimDeleted", f"{write.name} was deleted, and whenScaled is Retain")
            case "PATCH", "statefulclusters", "status":
                self._check_draws(before, after)

    def _check_created(self, pod: Any) -> None:
        mine = set(claims_of(pod))
        for other in self.pods():
            if other["metadata"]["uid"] != pod["metadata"]["uid"] and mine & set(claims_of(other)):
                raise Violation(
                    "TwoPodsOnAClaim", f"{pod['metadata']['name']} and {other['metadata']['name']}"
                )

    def _check_removed(self, pod: Any, *, voluntary: bool) -> None:
        if pod is None or is_leaving(pod):
            return
        name, spec = pod["metadata"]["name"], self.cluster["spec"]
        active = [each for each in self.pods() if not is_leaving(each) or each["metadata"]["name"] == name]
        replicas, strategy = spec["replicas"], spec["updateStrategy"]
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        if is_ready(pod) and not voluntary:
            raise Violation("DeletedReadyPod", f"{name} is ready and was deleted without a look at budgets")
        if not self.current or len(active) > replicas:
            return
        if is_ready(pod):
            if strategy["type"] == "OnDelete":
                raise Violation("OnDelete", f"{name} was removed, and the strategy is OnDelete")
            left = sum(map(is_ready, active)) - 1
            if left < replicas - allowed:
                raise Violation("PastMaxUnavailable", f"{left} of {replicas} are left without {name}")
            return
        if voluntary or pod["metadata"]["uid"] not in self.once_ready or pod["status"]["phase"] != "Running":
            return
        if not self._is_unhealthy(pod):
            raise Violation("DeletedUnreadyPod", f"{name} was unready for a moment only")
        starting = [each for each in active if not is_ready(each) and not self._is_unhealthy(each)]
        if len(starting) + replicas - len(active) >= allowed:
            raise Violation("DeletedBeforeOthersAreBack", f"{name} was deleted while others are missing")

    def _check_set_aside(self, before: Any, after: Any) -> None:
        marks = [(each["metadata"].get("annotations") or {}).get(UNUSABLE) for each in (before, after)]
        if marks[0] or not marks[1] or not self.has_data(after):
            return
        name, uid = after["metadata"]["name"], after["metadata"]["uid"]
        consent = (self.cluster["metadata"].get("annotations") or {}).get(GIVE_UP, "")
        if uid in consent:
            return
        since = self.now - self.unreachable.get(name, self.now)
        others = sum(
            is_ready(pod) and name not in claims_of(pod) and not set(claims_of(pod)) & self.unreachable.keys()
            for pod in self.pods()
        )
        floor = math.ceil(0.51 * self.cluster["spec"]["replicas"])
        ok = self.rule.get("policy", "After") == "After" and self.nodes.affinity != "zone"
        if not ok or since < {"10m": 600, "2m": 120}[self.rule["after"]] - 10:
            raise Violation("DataGivenUp", f"{name} after {since:.0f} s: {marks[1]}")
        if self.current and others < floor:
            raise Violation(
                "DataGivenUp", f"{name}: {others} others have data, the floor is {floor}: {marks[1]}"
            )

    def _check_draws(self, before: Any, after: Any) -> None:
        known = {each["replica"] for each in (before.get("status") or {}).get("draws") or ()}
        draws = (after.get("status") or {}).get("draws") or ()
        there = {pod["metadata"]["name"] for pod in self.server.all(POD)}
        for draw in draws:
            if draw["replica"] in known | there or not draw.get("group"):
                continue
            self._check_group(
                f"data-{NAME}-{draw['group']}", {f"data-{NAME}-{each['group']}" for each in draws}
            )

    def _check_group(self, chosen: str, drawn: set[str]) -> None:
        """Check the claims of a new replica: data comes before empty claims, newer before older data."""
        replicas = max(count for at, count in self.most_replicas if at >= self.now - TOLERANCE)
        with_data = [
            claim
            for claim in self.server.all(CLAIM)
            if self.has_data(claim)
            and not is_leaving(claim)
            and UNUSABLE not in (claim["metadata"].get("annotations") or {})
        ]
        names = {claim["metadata"]["name"] for claim in with_data}
        if chosen not in names:
            if len(names) >= replicas:
                raise Violation("EmptyVolume", f"{chosen} is empty, {sorted(names)} have data")
            return
        for claim in with_data:
            name = claim["metadata"]["name"]
            free = name not in drawn | self.mounted and not self.server.mounting(name)
            if free and self.released.get(name, 0.0) > self.released.get(chosen, 0.0) + TOLERANCE:
                raise Violation("StaleData", f"{chosen} is older than {name}")

    def pods(self) -> list[JsonObject]:
        uid = self.cluster["metadata"]["uid"]
        return [
            pod
            for pod in self.server.all(POD)
            if any(owner["uid"] == uid for owner in pod["metadata"].get("ownerReferences") or ())
        ]

    def _is_unhealthy(self, pod: JsonObject) -> bool:
        if pod["status"].get("phase") in ("Failed", "Unknown"):
            return True
        waiting = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting")
        since = condition(pod, "Ready").get("lastTransitionTime")
        age = self.nodes.clock.now().timestamp() - _seconds(since) if since else 0.0
        return bool(waiting) or (pod["status"].get("phase") == "Running" and age >= GRACE - 1.5)


def _seconds(stamp: str) -> float:
    import datetime

    return datetime.datetime.fromisoformat(stamp).timestamp()
