"""A node that only pretends: binds pods, says of them what a test wants, and lets deleted ones go.

There is no container anywhere; everything else is real: it speaks to a real API server as a
scheduler and a kubelet do, so controllers see what they would see. Used where a control plane
has no node, and by the benchmarks, where a thousand pods are to be had for little.
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
# A pod that was changed or deleted meanwhile: its next event says how it stands.
OVERTAKEN = (404, 409)
# A server that is away, starts, or has too much to do: a kubelet tries again.
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
    """The health of every pod unless a test says otherwise."""
    return "Ready"


class SimulatedNode:
    """Serves the pods of one namespace, or of all; `health` answers Pending, Running, Ready or Failed."""

    def __init__(
        self, api: Api, *, namespace: str = "", health: Health = always_ready, at_once: int = 16
    ) -> None:
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self.health = health
        self._slots = asyncio.Semaphore(at_once)
        self._known: dict[_Key, JsonObject] = {}
        self._busy: dict[_Key, asyncio.Task[None]] = {}
        self._again: set[_Key] = set()
        self._failure: BaseException | None = None
        self.requests: Counter[tuple[str, str]] = Counter()
        """What it has sent, by verb and type: to be told from what others sent."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["SimulatedNode"]:
        """Work while inside; what went wrong in the background is raised at the end."""
        await self._beat()
        follower, heart = asyncio.create_task(self._follow()), asyncio.create_task(self._live())
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

    def look_again(self) -> None:
        """Ask `health` anew about every pod."""
        for key in list(self._known):
            self._offer(key)

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            await self._passing(self._beat())

    async def _beat(self) -> None:
        """Say that the node is there and well: pods of a node that is not are taken away within a minute."""
        now = datetime.datetime.now(datetime.UTC)
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Simulated",
            "lastTransitionTime": _written(now),
        }
        status = {"conditions": [{**ready, "lastHeartbeatTime": _written(now)}]}
        lease = {
            "holderIdentity": NODE,
            "leaseDurationSeconds": 40,
            "renewTime": f"{now:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        # Real pods that wait for a node must not be given to this one.
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

    async def _passing(self, work: Awaitable[None]) -> bool:
        """Whether it was done; a trouble that passes by itself is given a moment."""
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

    async def _follow(self) -> None:
        while True:
            await self._passing(self._list_and_watch())

    async def _list_and_watch(self) -> None:
        self.requests["LIST", "pods"] += 1
        answer = await self._api.get(self._path)
        version = answer["metadata"]["resourceVersion"]
        self._known = {_key(pod): pod for pod in answer["items"]}
        self.look_again()
        with contextlib.suppress(_RelistError):
            await self._stream(version)

    async def _stream(self, version: str) -> None:
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
                    self._take(event.type, pod)

    def _take(self, kind: str, pod: JsonObject) -> None:
        key = _key(pod)
        if kind == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = pod
            self._offer(key)

    def _offer(self, key: _Key) -> None:
        if key in self._busy:
            self._again.add(key)
            return
        self._busy[key] = asyncio.create_task(self._serve(key))
        self._busy[key].add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    async def _serve(self, key: _Key) -> None:
        """Do what is to be done about the newest known state; once more if something came meanwhile."""
        try:
            while True:
                self._again.discard(key)
                async with self._slots:
                    await self._look_at(key)
                if key not in self._again:
                    return
        finally:
            # In one step with the look above: an event in between would find it busy, and be lost.
            del self._busy[key]

    async def _look_at(self, key: _Key) -> None:
        pod = self._known.get(key)
        try:
            if pod is not None and not await self._passing(self._advance(key, pod)):
                self._again.add(key)
        except RefusedError as error:
            if error.code not in OVERTAKEN and not _namespace_ends(error):
                raise

    async def _advance(self, key: _Key, pod: JsonObject) -> None:
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
        meta, health = pod["metadata"], self.health(pod)
        if meta.get("deletionTimestamp"):
            body = {"preconditions": {"uid": meta["uid"]}, "gracePeriodSeconds": 0}
            self.requests["DELETE", "pods"] += 1
            await self._api.delete(path, body)
        elif health == "Pending" or _shows(pod, health):
            return
        else:
            if not pod["spec"].get("nodeName"):
                target = {"metadata": {"name": key.name}, "target": {"kind": "Node", "name": NODE}}
                self.requests["POST", "pods/binding"] += 1
                await self._api.create(f"{path}/binding", target)
            self.requests["PATCH", "pods/status"] += 1
            await self._api.merge(f"{path}/status", _status(pod, health))


def _namespace_ends(refusal: RefusedError) -> bool:
    """Whether nothing may be made there any more; what is there will be deleted."""
    causes = refusal.status.get("details", {}).get("causes", ()) if isinstance(refusal.status, dict) else ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _key(pod: JsonObject) -> _Key:
    return _Key(pod["metadata"]["namespace"], pod["metadata"]["name"])


def _shows(pod: JsonObject, health: str) -> bool:
    """Whether the pod's status says so already.

    The scheduler finds no node for it, and may write that after we have bound the pod.
    """
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if conditions.get("PodScheduled") == "False":
        return False
    ready = conditions.get("Ready") == "True"
    wanted = {"Ready": ("Running", True), "Running": ("Running", False), "Failed": ("Failed", False)}
    return (status.get("phase"), ready) == wanted[health]


def _status(pod: JsonObject, health: str) -> JsonObject:
    now = _written(datetime.datetime.now(datetime.UTC))
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
    # A status of another pod of the same name is not ours to write.
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": body}


def _written(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _RelistError(Exception):
    """The watch cannot be resumed."""
