"""Checkups on a real API server: CRD, controller, and the work of a node.

The control plane has a Job controller and a scheduler, but no node. `SimulatedPod` writes the pod status that a kubelet
would write, `write_results` the ConfigMap data that a checkup would write. Everything else is real.
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
from kit.kinds.controllers import install_crds, run_controllers
from quintet.apis.checkup import CHECKUP, CHECKUPS, Checkup
from quintet.apis.checkup.contract import object_name
from quintet.apis.checkup.types import FINALIZER
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.controllers.checkup import controller
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.decide.timing import TimeLimits
from quintet.kube.client import PODS, Client
from quintet.runtime.manager import Manager

ROOT = Path(__file__).parents[3]
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
CHILD_TYPES = (desired.CONFIG_MAPS, desired.ROLES, desired.ROLE_BINDINGS, desired.JOBS)
CONTEXT = context_of("checkup")
IMAGE = "quintet.local/checkup-echo:1"
ACCOUNT = "echo"
PATIENT = TimeLimits(start=120.0, slack=0.0, no_pod=0.3, look_again=0.5, partial=0.1, teardown=60.0)
"""For runs that are to begin, however long the controllers of Kubernetes take for a pod."""
QUICK = TimeLimits(start=2.0, slack=0.0, no_pod=0.3, look_again=0.5, partial=0.1, teardown=60.0)
PASSED = {"status.succeeded": "true", "status.failureReason": "", "status.result.echo": "Hi!"}


async def install(client: Client) -> None:
    """Install the committed CRD."""
    await install_crds(client, CHECKUP)


async def create_service_account(client: Client, namespace: str, name: str = ACCOUNT) -> None:
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
    """Create a Checkup as the mutating webhook returns it, with the finalizer."""
    body = a_checkup(name, **spec)
    body["metadata"]["finalizers"] = [FINALIZER]
    await client.create(CHECKUPS, body, Object, namespace=namespace)
    return ObjectKey(namespace, name)


@contextlib.asynccontextmanager
async def an_operator(
    kubeconfig: Path, *, limits: TimeLimits = QUICK, context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """Run the controller in this process while inside."""
    build = functools.partial(controller.build, limits=limits)
    async with run_controllers(kubeconfig, build, context=context, **options) as manager:
        yield manager


async def get(client: Client, key: ObjectKey) -> Checkup:
    return await client.get(CHECKUPS, key, Checkup)


async def wait_for_verdict(
    client: Client, key: ObjectKey, verdict: str, *, run: int = 1, within: float = 60.0
) -> Checkup:
    """Wait until this run has the verdict, and return the Checkup."""

    async def probe() -> Checkup:
        checkup = await get(client, key)
        assert checkup.status.run in (run, 0), checkup.status
        assert checkup.status.verdict == verdict, checkup.status
        return checkup

    return await eventually(probe, within=within)


async def wait_for_reason(client: Client, key: ObjectKey, reason: str, *, within: float = 60.0) -> Checkup:
    """Wait until the status has this reason, and return the Checkup."""

    async def probe() -> Checkup:
        checkup = await get(client, key)
        assert checkup.status.reason == reason, checkup.status
        return checkup

    return await eventually(probe, within=within)


async def run_name(client: Client, key: ObjectKey, run: int = 1) -> str:
    checkup = await client.get(CHECKUPS, key, Object)
    return object_name(key.name, checkup.metadata.uid, run)


async def children(client: Client, key: ObjectKey, run: int = 1) -> dict[str, JsonObject]:
    """Return the objects of a run by kind."""
    where = ObjectKey(key.namespace, await run_name(client, key, run))
    return {resource.kind: await client.get(resource, where, dict[str, Any]) for resource in CHILD_TYPES}


async def write_results(client: Client, key: ObjectKey, data: dict[str, Any], run: int = 1) -> None:
    """Write results as the checkup itself would."""
    where = ObjectKey(key.namespace, await run_name(client, key, run))
    await client.patch(desired.CONFIG_MAPS, where, {"data": data}, Object)


async def list_pods(client: Client, namespace: str) -> list[Object]:
    """Return all pods of checkups."""
    found: list[Object] = []
    async for page in client.pages(PODS, namespace=namespace, labels=desired.SELECTOR):
        found += [msgspec.json.decode(raw, type=Object) for raw in page.items]
    return found


class SimulatedPod:
    """The pod of a run that the Job controller created; the test writes its status."""

    def __init__(self, client: Client, key: ObjectKey) -> None:
        self._client = client
        self.key = key

    @classmethod
    async def wait_for(cls, client: Client, key: ObjectKey, run: int = 1) -> "SimulatedPod":
        """Wait until the Job controller has created the pod of the current Job."""

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

    async def set_status(self, **status: Any) -> None:
        """Write the pod status as the kubelet would."""
        await self._client.patch(PODS, self.key, {"status": status}, Object, subresource="status")

    async def start(self) -> None:
        await self.set_status(phase="Running", containerStatuses=[_container(running={"startedAt": _now()})])

    async def end_checkup(self, code: int = 0) -> None:
        """End the checkup container only: the sidecar `proxy` runs on."""
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": _now()}
        sidecar = {**_container(running={"startedAt": _now()}), "name": "proxy"}
        await self.set_status(phase="Running", containerStatuses=[_container(terminated=ended), sidecar])

    async def set_waiting(self, reason: str, message: str = "") -> None:
        state = {"waiting": {"reason": reason, "message": message}}
        await self.set_status(phase="Pending", containerStatuses=[_container(**state)])

    async def terminate(self, code: int = 0, **extra: Any) -> None:
        state = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "startedAt": _now()}
        phase = "Succeeded" if code == 0 else "Failed"
        await self.set_status(phase=phase, containerStatuses=[_container(terminated=state)], **extra)


async def run_to_success(client: Client, key: ObjectKey, run: int = 1) -> None:
    """Start the pod, write successful results and terminate it."""
    pod = await SimulatedPod.wait_for(client, key, run)
    await pod.start()
    await write_results(client, key, PASSED, run)
    await pod.terminate()


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
