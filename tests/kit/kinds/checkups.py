"""Checkups on a real API server: their definition, their operator, and the parts that a node would play.

The control plane of these tests has a Job controller and a scheduler, but no node: what a kubelet
would say about a pod is written into its status by `PlayedPod`, and what a checkup would write into
its ConfigMap by `write_results`. Everything else is real.
"""

import contextlib
import functools
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import define, operating
from quintet.apis.checkup import CHECKUP, CHECKUPS, Checkup
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.controllers.checkup import controller
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.decide.timing import Limits
from quintet.kube.client import PODS, Client
from quintet.runtime.manager import Manager

ROOT = Path(__file__).parents[3]
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
CHILD_TYPES = (desired.CONFIG_MAPS, desired.ROLES, desired.ROLE_BINDINGS, desired.JOBS)
CONTEXT = context_of("checkup")
IMAGE = "quintet.local/checkup-echo:1"
ACCOUNT = "echo"
PATIENT = Limits(start=120.0, slack=0.0, no_pod=0.3, look_again=0.5, partial=0.1, teardown=60.0)
"""For runs that are to begin, however long the controllers of Kubernetes take for a pod."""
QUICK = Limits(start=2.0, slack=0.0, no_pod=0.3, look_again=0.5, partial=0.1, teardown=60.0)
PASSED = {"status.succeeded": "true", "status.failureReason": "", "status.result.echo": "Hi!"}


async def install(client: Client) -> None:
    """Make the API server serve Checkups, from the committed definition."""
    await define(client, CHECKUP)


async def an_account(client: Client, namespace: str, name: str = ACCOUNT) -> None:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    await client.create(ACCOUNTS, body, Object, namespace=namespace)


def a_checkup(name: str, *, timeout: Any = 60, params: Any = None, **spec: Any) -> JsonObject:
    body: JsonObject = {"timeoutSeconds": timeout, "image": IMAGE, "serviceAccountName": ACCOUNT, **spec}
    if params is not None:
        body["params"] = params
    return {
        "apiVersion": CHECKUPS.api_version,
        "kind": CHECKUPS.kind,
        "metadata": {"name": name},
        "spec": body,
    }


async def create(client: Client, namespace: str, name: str, **spec: Any) -> ObjectKey:
    """As the mutating webhook leaves it: held by the finalizer."""
    body = a_checkup(name, **spec)
    body["metadata"]["finalizers"] = [FINALIZER]
    await client.create(CHECKUPS, body, Object, namespace=namespace)
    return ObjectKey(namespace, name)


@contextlib.asynccontextmanager
async def an_operator(
    kubeconfig: Path, *, limits: Limits = QUICK, context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """An operator in this process, stopped on the way out."""
    build = functools.partial(controller.build, limits=limits)
    async with operating(kubeconfig, build, context=context, **options) as manager:
        yield manager


async def get(client: Client, key: ObjectKey) -> Checkup:
    return await client.get(CHECKUPS, key, Checkup)


async def with_verdict(
    client: Client, key: ObjectKey, verdict: str, *, run: int = 1, within: float = 60.0
) -> Checkup:
    """The Checkup, once that run of it has this verdict."""

    async def probe() -> Checkup:
        checkup = await get(client, key)
        assert checkup.status.run in (run, 0), checkup.status
        assert checkup.status.verdict == verdict, checkup.status
        return checkup

    return await eventually(probe, within=within)


async def with_reason(client: Client, key: ObjectKey, reason: str, *, within: float = 60.0) -> Checkup:
    """The Checkup, once its status gives this reason."""

    async def probe() -> Checkup:
        checkup = await get(client, key)
        assert checkup.status.reason == reason, checkup.status
        return checkup

    return await eventually(probe, within=within)


async def run_name(client: Client, key: ObjectKey, run: int = 1) -> str:
    checkup = await client.get(CHECKUPS, key, Object)
    return object_name(key.name, checkup.metadata.uid, run)


async def children(client: Client, key: ObjectKey, run: int = 1) -> dict[str, JsonObject]:
    """The objects of a run, by kind."""
    where = ObjectKey(key.namespace, await run_name(client, key, run))
    return {resource.kind: await client.get(resource, where, dict[str, Any]) for resource in CHILD_TYPES}


async def write_results(client: Client, key: ObjectKey, data: dict[str, Any], run: int = 1) -> None:
    """What the checkup itself does."""
    where = ObjectKey(key.namespace, await run_name(client, key, run))
    await client.patch(desired.CONFIG_MAPS, where, {"data": data}, Object)


async def pods(client: Client, namespace: str) -> list[Object]:
    """All pods of checkups."""
    found: list[Object] = []
    async for page in client.pages(PODS, namespace=namespace, labels=desired.SELECTOR):
        found += [msgspec.json.decode(raw, type=Object) for raw in page.items]
    return found


class PlayedPod:
    """The pod of a run, which the Job controller has made; what happens to it is told by the test."""

    def __init__(self, client: Client, key: ObjectKey) -> None:
        self._client = client
        self.key = key

    @classmethod
    async def of(cls, client: Client, key: ObjectKey, run: int = 1) -> "PlayedPod":
        """Wait for the Job controller to make it; one of a Job that had the same name before is another."""

        async def made() -> ObjectKey:
            where = ObjectKey(key.namespace, await run_name(client, key, run))
            job = await client.get(desired.JOBS, where, Object)
            selector = f"batch.kubernetes.io/controller-uid={job.metadata.uid}"
            async for page in client.pages(PODS, namespace=key.namespace, labels=selector):
                for raw in page.items:
                    found = msgspec.json.decode(raw, type=Object)
                    if not found.metadata.deleting:
                        return found.key
            raise AssertionError(f"Job {where} has no pod yet")

        return cls(client, await eventually(made, within=60))

    async def says(self, **status: Any) -> None:
        """What the kubelet would write."""
        await self._client.patch(PODS, self.key, {"status": status}, Object, subresource="status")

    async def runs(self) -> None:
        await self.says(phase="Running", containerStatuses=[_container(running={"startedAt": _now()})])

    async def waits(self, reason: str, message: str = "") -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        await self.says(phase="Pending", containerStatuses=[_container(**state)])

    async def ends(self, code: int = 0, **extra: Any) -> None:
        state = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": _now()}
        phase = "Succeeded" if code == 0 else "Failed"
        await self.says(phase=phase, containerStatuses=[_container(terminated=state)], **extra)


async def passes(client: Client, key: ObjectKey, run: int = 1) -> None:
    """A checkup that runs, writes good results and ends."""
    pod = await PlayedPod.of(client, key, run)
    await pod.runs()
    await write_results(client, key, PASSED, run)
    await pod.ends()


def _container(**state: Any) -> JsonObject:
    return {
        "name": "checkup",
        "image": IMAGE,
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
