"""A simulated node: it binds pods and writes their status as a scheduler and a kubelet would, without containers.

The API server is real, so controllers see what they would see on a node. Tests without a node use it, and the
benchmarks, which need thousands of pods.
"""

import asyncio
import contextlib
import datetime
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import aiohttp
import msgspec

from kit.cluster.api import Api, JsonObject, RefusedError

NODE = "simulated"
GONE = 410
# A pod that was changed or deleted concurrently: its next event shows the new state.
OVERTAKEN = (404, 409)
# An unavailable, starting or overloaded API server: retry, as a kubelet does.
BUSY = (429, 500, 503, 504)
PAUSE = 0.2
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
BEAT = 10.0
ENDLESS = aiohttp.ClientTimeout(total=None)

Health = Callable[[JsonObject], str]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Key(NamedTuple):
    namespace: str
    name: str


def always_ready(pod: JsonObject) -> str:
    """Report every pod as ready."""
    return "Ready"


class SimulatedNode:
    """Handles the pods of one or all namespaces; `health` returns Pending, Running, Ready or Failed."""

    def __init__(
        self, api: Api, *, namespace: str = "", health: Health = always_ready, at_once: int = 16
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self.health = health
        self._slots = asyncio.Semaphore(at_once)
        self._known: dict[_Key, JsonObject] = {}
        self._busy: dict[_Key, asyncio.Task[None]] = {}
        self._dirty: set[_Key] = set()
        self._failure: BaseException | None = None
        self.requests: Counter[tuple[str, str]] = Counter()
        """Its own requests by verb and type."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["SimulatedNode"]:
        """Run while inside; errors of background tasks are raised on exit."""
        await self._send_heartbeat()
        follower, heart = (
            asyncio.create_task(self._watch_pods()),
            asyncio.create_task(self._send_heartbeats()),
        )
        try:
            yield self
        finally:
            for task in (follower, heart, *self._busy.values()):
                task.cancel()
            await asyncio.gather(follower, heart, *self._busy.values(), return_exceptions=True)
        if self._failure is not None:
            raise RuntimeError("the simulated node failed") from self._failure
        if follower.done() and not follower.cancelled():
            follower.result()

    def sync_all(self) -> None:
        """Call `health` again for every pod."""
        for key in list(self._known):
            self._enqueue(key)

    async def _send_heartbeats(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            await self._try(self._send_heartbeat())

    async def _send_heartbeat(self) -> None:
        """Renew node status and lease; pods of a node without heartbeats would be evicted within a minute."""
        now = datetime.datetime.now(datetime.UTC)
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Simulated",
            "lastTransitionTime": _format_time(now),
        }
        status = {"conditions": [{**ready, "lastHeartbeatTime": _format_time(now)}]}
        lease = {
            "holderIdentity": NODE,
            "leaseDurationSeconds": 40,
            "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        # Real pending pods must not be scheduled here.
        node = {"metadata": {"name": NODE}, "spec": {"unschedulable": True}}
        await self._ensure("/api/v1/nodes", node)
        await self._ensure(LEASES, {"metadata": {"name": NODE}, "spec": lease})
        await self._api.merge(f"{LEASES}/{NODE}", {"spec": lease})
        await self._api.merge(f"/api/v1/nodes/{NODE}/status", {"status": status})

    async def _ensure(self, path: str, body: JsonObject) -> None:
        try:
            if not await self._api.exists(f"{path}/{NODE}"):
                await self._api.create(path, body)
        except RefusedError as error:
            if error.code not in OVERTAKEN:
                raise

    async def _try(self, work: Awaitable[None]) -> bool:
        """Return whether the work succeeded; pause after a temporary error."""
        try:
            await work
        except RefusedError as error:
            if error.code not in BUSY:
                raise
        except (aiohttp.ClientError, TimeoutError):
            pass
        else:
            return True
        await asyncio.sleep(PAUSE)
        return False

    async def _watch_pods(self) -> None:
        while True:
            await self._try(self._list_and_watch())

    async def _list_and_watch(self) -> None:
        self.requests["LIST", "pods"] += 1
        answer = await self._api.get(self._path)
        version = answer["metadata"]["resourceVersion"]
        self._known = {_key(pod): pod for pod in answer["items"]}
        self.sync_all()
        with contextlib.suppress(_RelistError):
            await self._watch_from(version)

    async def _watch_from(self, version: str) -> None:
        decode = msgspec.json.Decoder(_Event).decode
        while True:
            params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "600"}
            async with self._api.session.get(
                self._api.server + self._path, params=params, timeout=ENDLESS, read_bufsize=2**20
            ) as answer:
                if answer.status == GONE:
                    raise _RelistError
                answer.raise_for_status()
                async for line in answer.content:
                    event = decode(line)
                    if event.type == "ERROR":
                        raise _RelistError
                    pod = msgspec.json.decode(event.object)
                    version = pod["metadata"]["resourceVersion"]
                    self._handle_event(event.type, pod)

    def _handle_event(self, kind: str, pod: JsonObject) -> None:
        key = _key(pod)
        if kind == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = pod
            self._enqueue(key)

    def _enqueue(self, key: _Key) -> None:
        if key in self._busy:
            self._dirty.add(key)
            return
        self._busy[key] = asyncio.create_task(self._sync(key))
        self._busy[key].add_done_callback(self._record_failure)

    def _record_failure(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    async def _sync(self, key: _Key) -> None:
        """Write the next state of a pod, and again if it changed in the meantime."""
        try:
            while True:
                self._dirty.discard(key)
                async with self._slots:
                    await self._sync_once(key)
                if key not in self._dirty:
                    return
        finally:
            # Without an await since the check above: an event in between would be lost.
            del self._busy[key]

    async def _sync_once(self, key: _Key) -> None:
        pod = self._known.get(key)
        try:
            if pod is not None and not await self._try(self._write_next_state(key, pod)):
                self._dirty.add(key)
        except RefusedError as error:
            if error.code not in OVERTAKEN and not _is_namespace_terminating(error):
                raise

    async def _write_next_state(self, key: _Key, pod: JsonObject) -> None:
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
        meta, health = pod["metadata"], self.health(pod)
        if meta.get("deletionTimestamp"):
            body = {"preconditions": {"uid": meta["uid"]}, "gracePeriodSeconds": 0}
            self.requests["DELETE", "pods"] += 1
            await self._api.delete(path, body)
        elif health == "Pending" or _has_status(pod, health):
            return
        else:
            if not pod["spec"].get("nodeName"):
                target = {"metadata": {"name": key.name}, "target": {"kind": "Node", "name": NODE}}
                self.requests["POST", "pods/binding"] += 1
                await self._api.create(f"{path}/binding", target)
            self.requests["PATCH", "pods/status"] += 1
            await self._api.merge(f"{path}/status", _status(pod, health))


def _is_namespace_terminating(refusal: RefusedError) -> bool:
    """Return whether a request was rejected because the namespace is terminating."""
    causes = refusal.status.get("details", {}).get("causes", ()) if isinstance(refusal.status, dict) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _key(pod: JsonObject) -> _Key:
    return _Key(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _has_status(pod: JsonObject, health: str) -> bool:
    """Return whether the pod's status already shows this health.

    The scheduler may report the pod as unschedulable after it was bound here.
    """
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if conditions.get("PodScheduled") == "False":
        return False
    ready = conditions.get("Ready") == "True"
    wanted = {"Ready": ("Running", True), "Running": ("Running", False), "Failed": ("Failed", False)}
    return (status.get("phase"), ready) == wanted[health]


def _status(pod: JsonObject, health: str) -> JsonObject:
    now = _format_time(datetime.datetime.now(datetime.UTC))
    ready = health == "Ready"
    verdict = "True" if ready else "False"

    def condition(name: str, status: str) -> JsonObject:
        return {"type": name, "status": status, "lastTransitionTime": now}

    state: dict[str, Any] = {"running": {"startedAt": now}}
    if health == "Failed":
        state = {"terminated": {"exitCode": 1, "startedAt": now, "finishedAt": now}}
    containers = [
        {"name": each["name"], "image": each["image"], "imageID": "", "ready": ready, "restartCount": 0}
        | {"started": True, "state": state}
        for each in pod["spec"]["containers"]
    ]
    conditions = [
        condition("PodScheduled", "True"),
        condition("Initialized", "True"),
        condition("ContainersReady", verdict),
        condition("Ready", verdict),
    ]
    body = {
        "phase": "Failed" if health == "Failed" else "Running",
        "startTime": pod.get("status", {}).get("startTime", now),
        "conditions": conditions,
        "containerStatuses": containers,
    }
    # Do not write to another pod of the same name.
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": body}


def _format_time(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _RelistError(Exception):
    """The watch cannot be resumed."""
