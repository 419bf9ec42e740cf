"""CRDs on the API server and controllers in the process of the test."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from kit.clock import FastClock
from kit.cluster.service_accounts import TESTED, context
from kit.eventually import eventually
from quintet.apis.meta import Object, ObjectKey, Resource
from quintet.apis.resources import CustomResource
from quintet.components import CUSTOM_RESOURCES
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.discovery import list_resources
from quintet.kube.errors import Forbidden
from quintet.kube.transport import Transport
from quintet.manifests.crd import custom_resource_definition
from quintet.runtime.manager import Manager

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)


# The definitions that a client has made, each with its uid and generation.
_made: WeakKeyDictionary[Client, dict[ObjectKey, tuple[str, int]]] = WeakKeyDictionary()


async def install_crds(client: Client, *kinds: CustomResource) -> None:
    """Install CRDs, and with them all of ours: one takes as long as all of them.

    The first call takes seconds; later calls only check that the CRDs still exist.
    """
    together = (*kinds, *(kind for kind in CUSTOM_RESOURCES if kind not in kinds))
    made, there = _made.setdefault(client, {}), await _list_crds(client)
    keys = [ObjectKey("", kind.resource.qualified) for kind in together]
    if all(key in made and made[key] == there.get(key) for key in keys):
        return
    for kind, key in zip(together, keys, strict=True):
        await client.apply(CRDS, key, custom_resource_definition(kind), Object)
    await wait_until_served(client, *(kind.resource for kind in together))

    async def owned() -> None:
        for kind in together:
            await _wait_until_can_own(client, kind.resource)

    await eventually(owned, within=120)
    there = await _list_crds(client)
    made.update({key: there[key] for key in keys})


async def _list_crds(client: Client) -> dict[ObjectKey, tuple[str, int]]:
    """Return uid and generation of all CRDs that are not being deleted, by name."""
    pages = [page async for page in client.pages(CRDS, metadata_only=True)]
    found = [msgspec.json.decode(raw, type=Object) for page in pages for raw in page.items]
    return {
        each.key: (each.metadata.uid, each.metadata.generation)
        for each in found
        if not each.metadata.deleting
    }


async def wait_until_served(client: Client, *resources: Resource) -> None:
    """Wait until the API server serves the kinds and lists them in discovery."""

    async def served() -> None:
        for resource in resources:
            async for _ in client.pages(resource):
                pass
        missing = {*resources} - {*await list_resources(client)}
        assert not missing, f"{[each.qualified for each in missing]} are not among what is served"

    await eventually(served, within=60)


async def _wait_until_can_own(client: Client, resource: Resource) -> None:
    """Wait until admission knows the kind; until then only administrators can set owner references to it."""
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "nobody", "uid": "nobody"}
    metadata = {
        "name": f"owned-{secrets.token_hex(4)}",
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    somebody = client.impersonate(ObjectKey(TESTED.namespace, context("jsonserver")))
    said = ""
    try:
        # Without an owner it is collected as garbage.
        await somebody.create(CONFIG_MAPS, body, Object, namespace="default")
    except Forbidden as refusal:
        said = refusal.message
    assert "RESTMapping" not in said, said


@contextlib.asynccontextmanager
async def run_controllers(
    kubeconfig: Path, build: Callable[[Manager], object], *, context: str | None, **options: Any
) -> AsyncIterator[Manager]:
    """Run controllers in this process while inside, with the identity of a kubeconfig context."""
    async with Transport(config.load(str(kubeconfig), context)) as transport:
        manager = Manager(Client(transport), FastClock(), f"test-{secrets.token_hex(3)}", **options)
        build(manager)
        task = asyncio.create_task(manager.run())
        try:
            await manager.wait_for_sync()
            yield manager
        finally:
            manager.stop()
            await task
