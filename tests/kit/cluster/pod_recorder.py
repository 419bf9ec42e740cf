"""Records every state of the pods of a namespace with a watch."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from kit.cluster.api import Api
from quintet.local.cluster import Cluster

Pod = dict[str, Any]
ENDLESS = aiohttp.ClientTimeout(total=None)


def is_ready(pod: Pod) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_leaving(pod: Pod) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def claims_of(pod: Pod) -> set[str]:
    volumes = pod["spec"].get("volumes", ())
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


@dataclass
class Recording:
    """The pods at the start and all watch events since, in order."""

    start: list[Pod]
    events: list[tuple[str, Pod]] = field(default_factory=list)

    def moments(self, **labels: str) -> Iterator[dict[str, Pod]]:
        """Yield the pods with these labels after each change, by name and uid."""
        now = {_identity(pod): pod for pod in self.start if _has(pod, labels)}
        yield dict(now)
        for kind, pod in self.events:
            if _has(pod, labels):
                if kind == "DELETED":
                    now.pop(_identity(pod), None)
                else:
                    now[_identity(pod)] = pod
                yield dict(now)

    def check(self, *, at_least: int = 0, **labels: str) -> None:
        """Assert that pods change one at a time, enough pods stay ready and no claim has two pods."""
        for number, pods in enumerate(self.moments(**labels)):
            changing = [name for name, pod in pods.items() if is_leaving(pod) or not is_ready(pod)]
            assert len(changing) <= 1, f"moment {number}: changing at once: {changing}\n{self.story()}"
            ready = len(pods) - len(changing)
            assert ready >= at_least, f"moment {number}: {ready} ready of {sorted(pods)}\n{self.story()}"
            claims = [claim for pod in pods.values() for claim in claims_of(pod)]
            assert len(claims) == len(set(claims)), f"moment {number}: shared: {claims}\n{self.story()}"

    def story(self) -> str:
        """Return one line per change."""
        lines = []
        for kind, pod in self.events:
            state = "leaving" if is_leaving(pod) else "ready" if is_ready(pod) else "not ready"
            version = pod["metadata"]["resourceVersion"]
            claims = ",".join(sorted(claims_of(pod)))
            lines.append(f"{version} {kind:8} {pod['metadata']['name']} {state} {claims}")
        return "\n".join(lines)


@contextlib.asynccontextmanager
async def record_pods(cluster: Cluster, namespace: str) -> AsyncIterator[Recording]:
    """Record while inside; exit waits until the newest state was seen."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    async with Api.connect(cluster.kubeconfig) as api:
        listed = await api.get(path)
        found = Recording(listed["items"])
        task = asyncio.create_task(_follow(api, path, listed["metadata"]["resourceVersion"], found))
        try:
            yield found
            await _wait_until_caught_up(api, path, found, task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _follow(api: Api, path: str, version: str, found: Recording) -> None:
    params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "3600"}
    async with api.session.get(
        api.server + path, params=params, timeout=ENDLESS, read_bufsize=2**20
    ) as answer:
        answer.raise_for_status()
        async for line in answer.content:
            event = json.loads(line)
            assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
            found.events.append((event["type"], event["object"]))


async def _wait_until_caught_up(api: Api, path: str, found: Recording, task: "asyncio.Task[None]") -> None:
    now = int((await api.get(path))["metadata"]["resourceVersion"])
    newest = [int(pod["metadata"]["resourceVersion"]) for pod in (await api.get(path))["items"]]
    wanted = max((each for each in newest if each <= now), default=0)
    async with asyncio.timeout(30):
        while not task.done():
            seen = [int(pod["metadata"]["resourceVersion"]) for _, pod in found.events]
            known = [int(pod["metadata"]["resourceVersion"]) for pod in found.start]
            if max([*seen, *known], default=0) >= wanted:
                return
            await asyncio.sleep(0.05)
    task.result()
    raise AssertionError("the recording ended before the test did")


def _identity(pod: Pod) -> str:
    return f"{pod['metadata']['name']} ({pod['metadata']['uid'][:8]})"


def _has(pod: Pod, labels: dict[str, str]) -> bool:
    return labels.items() <= pod["metadata"].get("labels", {}).items()
