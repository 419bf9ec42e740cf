"""The suite operator on a real API server, with its shipped ServiceAccount and permissions.

Its controllers run only on a node. Without one, `simulate_controllers` does the part of their work that the operator
waits for.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from kit.background import run_in_background
from kit.cluster.access_reviews import wait_for_permissions
from kit.cluster.api import Api, RefusedError
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.controllers import CRDS, run_controllers
from quintet.apis.meta import JsonObject, ObjectKey
from quintet.apis.suite import QUINTETS, Quintet
from quintet.clock import SystemClock, micro_timestamp
from quintet.components import COMPONENTS
from quintet.controllers.suite import controller
from quintet.controllers.suite.decide.installation import (
    BY_KIND,
    DEPLOYMENTS,
    OWNED,
    SELECTOR,
    VALIDATING,
    key_of,
)
from quintet.install.doctor.checks import OURS
from quintet.kube.client import Client
from quintet.manifests.installation import QUINTET, Flavour, in_namespace, installer
from quintet.manifests.operator import operator, quintet_object
from quintet.runtime.leader import LEASES
from quintet.runtime.manager import Manager

ALL = tuple(COMPONENTS.values())
NAMES = [component.name for component in ALL]
THE_ONE = ObjectKey("", "quintet")
PATH = "/apis/quintet.dev/v1alpha1/quintets"
ASKED_ABOUT_NOTHING = {
    "name": "nothing.quintet.dev",
    "clientConfig": {"url": "https://127.0.0.1:1/"},
    "rules": [
        {"apiGroups": ["nobody"], "apiVersions": ["v1"], "resources": ["none"], "operations": ["CREATE"]}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def a_flavour(namespace: str, image: str = "q:1", progress_seconds: int = 180) -> Flavour:
    placed = in_namespace(QUINTET, namespace, image)
    return replace(placed, progress_seconds=progress_seconds)


def path_of(body: JsonObject) -> str:
    """Return the API path of an object of the installation."""
    key = key_of(body)
    return BY_KIND[body["kind"]].path(key.namespace, key.name)


def admin_manifests(flavour: Flavour) -> Iterator[JsonObject]:
    """Yield the objects that an administrator installs, except the Deployment: the operator runs in the test."""
    for body in operator(ALL, flavour):
        if body["kind"] in BY_KIND and body["kind"] not in ("Deployment", "NetworkPolicy"):
            yield body


async def prepare(api: Api, flavour: Flavour) -> str:
    """Install the operator's ServiceAccount and permissions and return a token for it."""
    for body in admin_manifests(flavour):
        await api.apply(path_of(body), body, manager="administrator", force=True)

    async def served() -> None:
        await api.get(PATH)

    await eventually(served, within=60)
    await wait_for_permissions(api, admin_manifests(flavour))
    account = f"/api/v1/namespaces/{flavour.namespace}/serviceaccounts/{flavour.operator}/token"
    token = await api.create(account, {"spec": {"expirationSeconds": 3600}})
    return str(token["status"]["token"])


async def remove_installation(api: Api, flavour: Flavour) -> None:
    """Delete the Quintet, its owned objects and the operator's permissions; CRDs stay for other tests."""
    await remove(api, f"{PATH}/{THE_ONE.name}")
    for resource in OWNED:
        if not resource.namespaced:
            await eventually(functools.partial(_assert_none_left, api, resource.path()), within=120)
    for body in admin_manifests(flavour):
        if body["kind"] != "CustomResourceDefinition":
            await remove(api, path_of(body))


async def remove(api: Api, path: str) -> None:
    with contextlib.suppress(RefusedError):
        await api.delete(path)


async def wait_until_removed(api: Api, namespace: str) -> None:
    """Wait until no object of an installation is terminating; it could not be created again."""

    async def probe() -> None:
        definitions = (await api.get(CRDS.path()))["items"]
        going = [each["metadata"]["name"] for each in definitions if "deletionTimestamp" in each["metadata"]]
        home = f"/api/v1/namespaces/{namespace}"
        if await api.exists(home) and "deletionTimestamp" in (await api.get(home))["metadata"]:
            going.append(namespace)
            # The node that would terminate them may be gone.
            await api.delete(f"{home}/pods", gracePeriodSeconds="0")
        assert going == []

    await eventually(probe, within=180)


async def _assert_none_left(api: Api, path: str) -> None:
    found = await list_owned(api, path)
    assert found == [], found


async def list_owned(api: Api, path: str) -> list[str]:
    """Return the names of the operator's owned objects of one type."""
    listed = await api.get(path, labelSelector=SELECTOR)
    return sorted(each["metadata"]["name"] for each in listed["items"])


@contextlib.asynccontextmanager
async def installed_operator(api: Api, flavour: Flavour, *, register: bool = True) -> AsyncIterator[str]:
    """Install the operator's ServiceAccount and permissions while inside, and yield a token for it."""
    token = await prepare(api, flavour)
    try:
        async with run_in_background(*([simulate_controllers(api)] if register else [])):
            yield token
    finally:
        await remove_installation(api, flavour)


async def simulate_controllers(api: Api) -> None:
    """Fill in webhook configurations and hold Leases, as the controllers do on a node."""
    await asyncio.gather(register_webhooks(api), hold_leases(api))


async def hold_leases(api: Api) -> None:
    """Renew the Lease of each Deployment that has an available pod."""
    while True:
        with contextlib.suppress(RefusedError, aiohttp.ClientError, TimeoutError):
            for each in (await api.get(DEPLOYMENTS.path(), labelSelector=OURS))["items"]:
                if each.get("status", {}).get("availableReplicas"):
                    await _renew_lease(api, each["metadata"])
        await asyncio.sleep(0.5)


async def _renew_lease(api: Api, deployment: JsonObject) -> None:
    name, namespace = deployment["name"], deployment["namespace"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": deployment["uid"]}
    body = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]},
        "spec": {"holderIdentity": f"{name}-0", "renewTime": micro_timestamp(SystemClock().now())},
    }
    await api.apply(LEASES.path(namespace, name), body, manager="a-leader", force=True)


async def register_webhooks(api: Api) -> None:
    """Fill in the webhook configurations that the operator creates."""
    while True:
        # Deleted concurrently, or the API server is overloaded: retry in the next round.
        with contextlib.suppress(RefusedError, aiohttp.ClientError, TimeoutError):
            listed = await api.get(VALIDATING.path(), labelSelector=SELECTOR)
            for name in [each["metadata"]["name"] for each in listed["items"] if "webhooks" not in each]:
                await api.merge(VALIDATING.path("", name), {"webhooks": [ASKED_ABOUT_NOTHING]})
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def suite_operator(
    proxy: FaultProxy, token: str, folder: Path, flavour: Flavour
) -> AsyncIterator[Manager]:
    """Run the operator in this process, through the proxy, with its own ServiceAccount."""
    async with suite_operator_at(proxy.write_kubeconfig(folder, token=token), flavour) as manager:
        yield manager


@contextlib.asynccontextmanager
async def suite_operator_at(
    kubeconfig: Path, flavour: Flavour, version: str = "1.2.3"
) -> AsyncIterator[Manager]:
    """Run the operator in this process with the identity of a kubeconfig."""
    build = functools.partial(controller.build, install=installer(ALL, flavour), version=version)
    async with run_controllers(kubeconfig, build, context=None, namespace=flavour.namespace) as manager:
        yield manager


async def update_crd(api: Api, path: str, spec: JsonObject) -> None:
    """Replace the spec of a CRD, and retry on conflicts with its controllers."""

    async def once() -> None:
        live = await api.get(path)
        await api.update(path, {**live, "spec": spec})

    await eventually(once, within=60)


async def apply_quintet(api: Api, **spec: Any) -> None:
    """Create or update the Quintet with this spec."""
    body = quintet_object(spec=spec)
    if await api.exists(f"{PATH}/{THE_ONE.name}"):
        await api.merge(f"{PATH}/{THE_ONE.name}", {"spec": spec})
    else:
        await api.create(PATH, body)


async def wait_for_condition(
    client: Client, kind: str, status: str, reason: str = "", *, within: float = 120.0
) -> Quintet:
    """Wait for a condition of the current generation, and return the Quintet."""

    async def probe() -> Quintet:
        quintet = await client.get(QUINTETS, THE_ONE, Quintet)
        assert quintet.status.observed_generation == quintet.metadata.generation, quintet.status
        (found,) = [each for each in quintet.status.conditions if each.type == kind]
        assert found.status == status, quintet.status
        assert reason in ("", found.reason), quintet.status
        return quintet

    return await eventually(probe, within=within)


async def wait_until_settled(client: Client, *, ready: str = "", within: float = 120.0) -> Quintet:
    """Wait until no change is in progress and every controller is ready, and return the Quintet."""

    async def probe() -> Quintet:
        quintet = await wait_for_condition(client, "Progressing", "False", within=1)
        assert all(each.ready for each in quintet.status.components), quintet.status
        assert ready in ("", quintet.status.ready), quintet.status
        return quintet

    return await eventually(probe, within=within)
