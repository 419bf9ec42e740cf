"""StatefulClusters and StatefulSets in large numbers, and a watch on their statuses."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiohttp
import msgspec

from benchmarks.process import ContenderProcess
from kit.cluster.api import Api, JsonObject

ENDLESS = aiohttp.ClientTimeout(total=None)


class Kind(NamedTuple):
    """API path and names of a kind."""

    prefix: str
    kind: str
    plural: str


class Status(msgspec.Struct, rename="camel"):
    """Status fields that both kinds share."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    generation: int = 0


class Set(msgspec.Struct):
    """Metadata and status of one set."""

    metadata: _Meta
    status: Status = msgspec.field(default_factory=Status)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Sets:
    """A number of sets of one kind, each with pods that have one claim."""

    kind: Kind
    namespace: str
    count: int
    replicas: int

    @property
    def pods(self) -> int:
        """Total number of pods."""
        return self.count * self.replicas

    def names(self) -> list[str]:
        """Return the names, all of the same length."""
        return [f"set-{number:04d}" for number in range(self.count)]

    def path(self, name: str = "") -> str:
        """Return the API path of all sets, or of one."""
        whole = f"{self.kind.prefix}/namespaces/{self.namespace}/{self.kind.plural}"
        return f"{whole}/{name}" if name else whole

    def body(self, name: str) -> JsonObject:
        """Return the manifest of a set."""
        labels = {"app": name}
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        container = {
            "name": "server",
            "image": "quintet.local/nats:2.15.2",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        return {
            "apiVersion": self.kind.prefix.removeprefix("/apis/"),
            "kind": self.kind.kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": self.replicas,
                "serviceName": name,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
                },
                "volumeClaimTemplates": [claim],
            },
        }

    def change(self, note: str) -> JsonObject:
        """Return a merge patch that creates a new revision."""
        return {"spec": {"template": {"metadata": {"annotations": {"note": note}}}}}

    def is_ready(self, each: Set) -> bool:
        """Return whether every pod is ready and the status observed the newest generation."""
        status = each.status
        counted = status.replicas == status.ready_replicas == self.replicas
        return counted and status.observed_generation == each.metadata.generation

    def is_updated(self, each: Set) -> bool:
        """Return whether, in addition, every pod has the newest revision."""
        status = each.status
        done = status.updated_replicas == self.replicas and status.current_revision == status.update_revision
        return each.metadata.generation > 1 and done and self.is_ready(each)


class Follower:
    """Watches the statuses of the sets."""

    def __init__(self, api: Api, sets: Sets) -> None:
        self._api = api
        self._sets = sets
        self._known: dict[str, Set] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Follower":
        listed = await self._api.get(self._sets.path())
        for item in listed["items"]:
            found = msgspec.convert(item, Set)
            self._known[found.metadata.name] = found
        self._task = asyncio.create_task(self._follow(listed["metadata"]["resourceVersion"]))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def all(self, done: Callable[[Set], bool], process: ContenderProcess, within: float) -> float:
        """Return when `done` held for the last set."""
        deadline = time.monotonic() + within
        while True:
            process.check()
            finished = sum(map(done, self._known.values()))
            if finished == self._sets.count:
                return time.monotonic()
            if self._task is not None and self._task.done():
                self._task.result()
                raise RuntimeError("the watch on the sets has ended")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{finished} of {self._sets.count} done; {process.output()[-2000:]}")
            self._changed.clear()
            await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(0.5):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _follow(self, version: str) -> None:
        decode: Any = msgspec.json.Decoder(_Event).decode
        narrow = msgspec.json.Decoder(Set).decode
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
        async with self._api.session.get(
            self._api.server + self._sets.path(), params=params, timeout=ENDLESS, read_bufsize=2**22
        ) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event = decode(line)
                if event.type not in ("ADDED", "MODIFIED"):
                    raise RuntimeError(f"unexpected in the watch on the sets: {line[:500]!r}")
                found = narrow(event.object)
                self._known[found.metadata.name] = found
                self._changed.set()
