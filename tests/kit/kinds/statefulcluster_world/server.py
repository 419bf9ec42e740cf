"""A simulated API server, in place of the transport of the real client.

It has what the StatefulCluster controller relies on: resourceVersions, preconditions, merge patches, generations,
the Eviction subresource with PodDisruptionBudgets, label selectors, and a log of changes for watches that lag.
"""

import asyncio
import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kit.clock import VirtualClock
from quintet.apis.meta import JsonObject
from quintet.kube.errors import Unreachable, error_for

NAMESPACE = "shop"
POD, CLAIM, CLUSTER, REVISION = "pods", "persistentvolumeclaims", "statefulclusters", "controllerrevisions"
VOLUME, NODE, CLASS, BUDGET = "persistentvolumes", "nodes", "storageclasses", "poddisruptionbudgets"
CLUSTER_SCOPED = (VOLUME, NODE, CLASS)

_PATH = re.compile(
    r"/apis?/(?:[^/]+/)?v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<kind>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<part>[a-z]+))?"
)
_TERM = re.compile(r"([^ ,=]+) in \(([^)]*)\)|([^ ,=]+)=([^,]*)")


@dataclass(frozen=True)
class Change:
    """One change of an object: what a watch sends."""

    version: int
    kind: str
    before: JsonObject | None
    after: JsonObject | None


@dataclass(frozen=True)
class Write:
    """One write request of the controller."""

    method: str
    kind: str
    name: str
    part: str
    body: JsonObject


class Refused(Exception):
    """The answer of the server to a request that it does not accept."""

    def __init__(self, code: int, reason: str = "", cause: str = "") -> None:
        super().__init__(code, reason)
        details = {"causes": [{"reason": cause, "message": cause}]} if cause else None
        self.code = code
        self.body = {"kind": "Status", "code": code, "reason": reason, "message": reason, "details": details}


class ServerOfWorld:
    """The objects, by kind and name, and every change of them."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.objects: dict[str, dict[str, JsonObject]] = {}
        self.log: list[Change] = []
        self.version = 100
        self.uids = 0
        self.watchers: list[Callable[[Write, JsonObject | None, JsonObject | None], None]] = []
        """Called with the state before and after each write of the controller."""

    def all(self, kind: str) -> list[JsonObject]:
        return list(self.objects.get(kind, {}).values())

    def get(self, kind: str, name: str) -> JsonObject | None:
        return self.objects.get(kind, {}).get(name)

    def now(self) -> str:
        return self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    def create(self, kind: str, body: JsonObject) -> JsonObject:
        made = copy.deepcopy(body)
        name = made["metadata"]["name"]
        if self.get(kind, name) is not None:
            raise Refused(409, "AlreadyExists")
        self.uids += 1
        uid = f"00000000-0000-4000-8000-{self.uids:012d}"
        made["metadata"] |= {"uid": uid, "creationTimestamp": self.now(), "generation": 1}
        if kind not in CLUSTER_SCOPED:
            made["metadata"]["namespace"] = NAMESPACE
        if kind in (POD, CLAIM):
            made["status"] = {"phase": "Pending", **made.get("status", {})}
        self._store(kind, None, made)
        return made

    def patch(self, kind: str, name: str, patch: JsonObject, part: str = "") -> JsonObject:
        before = self.get(kind, name)
        if before is None:
            raise Refused(404, "NotFound")
        metadata = patch.get("metadata") or {}
        if metadata.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
            raise Refused(409, "Conflict")
        expected = metadata.get("resourceVersion", before["metadata"]["resourceVersion"])
        if str(expected) != before["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict")
        if part == "status":
            patch = {"status": patch.get("status")}
        elif kind == CLUSTER:
            patch = {key: value for key, value in patch.items() if key != "status"}
        after = merge(before, patch)
        if after == before:
            return before
        if after.get("spec") != before.get("spec"):
            after["metadata"] = {**after["metadata"], "generation": before["metadata"]["generation"] + 1}
        self._store(kind, before, after)
        return after

    def delete(self, kind: str, name: str, *, grace: float | None = None) -> None:
        """Remove an object, or start its deletion; `grace` of 0 removes a pod at once."""
        before = self.get(kind, name)
        if before is None:
            raise Refused(404, "NotFound")
        lingers = (kind == POD and grace != 0) or (kind == CLAIM and self.mounting(name))
        if lingers and before["metadata"].get("deletionTimestamp"):
            return
        if lingers:
            due = self.clock.now()
            stamp = due.strftime("%Y-%m-%dT%H:%M:%SZ")
            self._store(kind, before, merge(before, {"metadata": {"deletionTimestamp": stamp}}))
            return
        del self.objects[kind][name]
        self._store(kind, before, None)

    def mounting(self, claim: str) -> list[JsonObject]:
        return [pod for pod in self.all(POD) if claim in claims_of(pod)]

    def evict(self, name: str) -> None:
        pod = self.get(POD, name)
        if pod is None:
            raise Refused(404, "NotFound")
        for budget in self.all(BUDGET):
            labels = pod["metadata"].get("labels") or {}
            wanted = budget["spec"]["selector"]["matchLabels"]
            if any(labels.get(key) != value for key, value in wanted.items()):
                continue
            healthy = sum(is_ready(each) and not is_leaving(each) for each in self.all(POD))
            floor = budget["spec"]["minAvailable"]
            if (healthy - 1 if is_ready(pod) else healthy) < floor:
                raise Refused(429, "TooManyRequests", "DisruptionBudget")
        self.delete(POD, name)

    def _store(self, kind: str, before: JsonObject | None, after: JsonObject | None) -> None:
        self.version += 1
        if after is not None:
            after["metadata"] = {**after["metadata"], "resourceVersion": str(self.version)}
            self.objects.setdefault(kind, {})[after["metadata"]["name"]] = after
        self.log.append(Change(self.version, kind, before, after))


class SimulatedTransport:
    """Answers the requests of the real client from the server; `fault` may fail, lose or stop a write."""

    def __init__(self, server: ServerOfWorld) -> None:
        self.server = server
        self.fault: Callable[[Write], str] = lambda write: ""
        self.crashed = asyncio.Event()
        self.dead = False
        self.writes = 0

    async def request(
        self, method: str, path: str, *, params: Any = None, body: bytes | None = None, **_: Any
    ) -> bytes:
        matched = _PATH.fullmatch(path)
        assert matched is not None, path
        kind, name, part = matched["kind"], matched["name"] or "", matched["part"] or ""
        if self.dead:
            await asyncio.Future()
        if method == "GET":
            return self._answer(method, path, lambda: self._read(kind, name, params or {}))
        write = Write(method, kind, name, part, json.loads(body or b"{}"))
        self.writes += 1
        fault = self.fault(write)
        if fault == "crash before":
            await self._crash()
        if fault.isdecimal():
            self._answer(method, path, lambda: _refuse(int(fault)))
        response = self._answer(method, path, lambda: self._write(write))
        if fault == "crash after":
            await self._crash()
        if fault == "lost answer":
            raise Unreachable(f"{method} {path}", "the connection was closed")
        return response

    async def _crash(self) -> None:
        self.dead = True
        self.crashed.set()
        await asyncio.Future()

    def _read(self, kind: str, name: str, params: Any) -> JsonObject:
        if name:
            found = self.server.get(kind, name)
            if found is None:
                raise Refused(404, "NotFound")
            return found
        items = [each for each in self.server.all(kind) if selects(params.get("labelSelector", ""), each)]
        return {"metadata": {"resourceVersion": str(self.server.version)}, "items": items}

    def _write(self, write: Write) -> JsonObject:
        server, name = self.server, write.name or write.body.get("metadata", {}).get("name", "")
        before = server.get(write.kind, name)
        match write.method, write.part:
            case "POST", "eviction":
                self._check_preconditions(before, write.body.get("deleteOptions") or {})
                server.evict(name)
            case "POST", _:
                server.create(write.kind, write.body)
            case "PATCH", part:
                server.patch(write.kind, name, write.body, part)
            case "DELETE", _:
                self._check_preconditions(before, write.body)
                server.delete(write.kind, name)
        after = server.get(write.kind, name)
        for watcher in server.watchers:
            watcher(write, before, after)
        return after or {"kind": "Status", "status": "Success"}

    @staticmethod
    def _check_preconditions(before: JsonObject | None, options: JsonObject) -> None:
        if before is None:
            raise Refused(404, "NotFound")
        for field, value in (options.get("preconditions") or {}).items():
            if before["metadata"].get(field) != value:
                raise Refused(409, "Conflict")

    @staticmethod
    def _answer(method: str, path: str, act: Callable[[], JsonObject]) -> bytes:
        try:
            return json.dumps(act()).encode()
        except Refused as refusal:
            raise error_for(f"{method} {path}", refusal.code, json.dumps(refusal.body).encode()) from None


def _refuse(code: int) -> JsonObject:
    reasons = {409: "Conflict", 400: "BadRequest", 422: "Invalid", 500: "InternalError"}
    raise Refused(code, reasons[code])


def merge(before: Any, patch: Any) -> Any:
    """Return the result of a JSON merge patch; the original stays unchanged."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    made = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merge(made.get(key), value)
    return made


def selects(selector: str, obj: JsonObject) -> bool:
    labels = obj["metadata"].get("labels") or {}
    if selector and "=" not in selector and " in " not in selector:
        return selector in labels
    for key, values, same, value in _TERM.findall(selector):
        if key and labels.get(key) not in values.split(","):
            return False
        if same and labels.get(same) != value:
            return False
    return True


def condition(obj: JsonObject, kind: str) -> JsonObject:
    found = (each for each in (obj.get("status") or {}).get("conditions") or () if each["type"] == kind)
    return next(found, {})


def is_ready(pod: JsonObject) -> bool:
    return condition(pod, "Ready").get("status") == "True"


def is_leaving(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def claims_of(pod: JsonObject) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]
