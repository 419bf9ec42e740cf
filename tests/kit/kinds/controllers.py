"""What the tests of every kind need: its definition on the API server, and its controller in this process."""

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
from quintet.kube.discovery import catalogue
from quintet.kube.errors import Forbidden
from quintet.kube.transport import Transport
from quintet.manifests.crd import definition
from quintet.runtime.manager import Manager

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
CRDS = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)


# The definitions that a client has made, each with its uid and generation.
_made: WeakKeyDictionary[Client, dict[ObjectKey, tuple[str, int]]] = WeakKeyDictionary()


async def define(client: Client, *kinds: CustomResource) -> None:
    """Make the API server serve kinds, and with them all of ours: one takes as long as all together.

    To do so costs seconds; whoever asks again pays for a look at the definitions only.
    """
    together = (*kinds, *(kind for kind in CUSTOM_RESOURCES if kind not in kinds))
    made, there = _made.setdefault(client, {}), await _definitions(client)
    keys = [ObjectKey("", kind.resource.qualified) for kind in together]
    if all(key in made and made[key] == there.get(key) for key in keys):
        return
    for kind, key in zip(together, keys, strict=True):
        await client.apply(CRDS, key, definition(kind), Object)
    await discovered(client, *(kind.resource for kind in together))

    async def owned() -> None:
        for kind in together:
            await _can_own(client, kind.resource)

    await eventually(owned, within=120)
    there = await _definitions(client)
    made.update({key: there[key] for key in keys})


async def _definitions(client: Client) -> dict[ObjectKey, tuple[str, int]]:
    """All that are there and stay, by name."""
    pages = [page async for page in client.pages(CRDS, metadata_only=True)]
    found = [msgspec.json.decode(raw, type=Object) for page in pages for raw in page.items]
    return {
        each.key: (each.metadata.uid, each.metadata.generation)
        for each in found
        if not each.metadata.deleting
    }


async def discovered(client: Client, *resources: Resource) -> None:
    """Wait until kinds are served, and the API server says so to whoever asks what it serves."""

    async def served() -> None:
        for resource in resources:
            async for _ in client.pages(resource):
                pass
        missing = {*resources} - {*await catalogue(client)}
        assert not missing, f"{[each.qualified for each in missing]} are not among what is served"

    await eventually(served, within=60)


async def _can_own(client: Client, resource: Resource) -> None:
    """Admission learns of a kind seconds later; until then nobody but an administrator may name an owner of it."""
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "nobody", "uid": "nobody"}
    metadata = {
        "name": f"owned-{secrets.token_hex(4)}",
        "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    somebody = client.acting_as(ObjectKey(TESTED.namespace, context("jsonserver")))
    said = ""
    try:
        # Without an owner it is collected as garbage.
        await somebody.create(CONFIG_MAPS, body, Object, namespace="default")
    except Forbidden as refusal:
        said = refusal.message
    assert "RESTMapping" not in said, said


@contextlib.asynccontextmanager
async def operating(
    kubeconfig: Path, build: Callable[[Manager], object], *, context: str | None, **options: Any
) -> AsyncIterator[Manager]:
    """An operator in this process, stopped on the way out; who it is, a context of the kubeconfig says."""
    async with Transport(config.load(str(kubeconfig), context)) as transport:
        manager = Manager(Client(transport), FastClock(), f"test-{secrets.token_hex(3)}", **options)
        build(manager)
        task = asyncio.create_task(manager.run())
        try:
            await manager.synced()
            yield manager
        finally:
            manager.stop()
            await task
