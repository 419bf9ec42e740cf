"""What the tests of every kind need: its definition on the API server, and its controller in this process."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kit.accounts import TESTED, context
from kit.clock import FastClock
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


async def define(client: Client, *kinds: CustomResource) -> None:
    """Make the API server serve kinds, and with them all of ours: one takes as long as all together."""
    together = (*kinds, *(kind for kind in CUSTOM_RESOURCES if kind not in kinds))
    for kind in together:
        await client.apply(CRDS, ObjectKey("", kind.resource.qualified), definition(kind), Object)
    for kind in together:
        await discovered(client, kind.resource)

    async def owned() -> None:
        for kind in together:
            await _can_own(client, kind.resource)

    await eventually(owned, within=120)


async def discovered(client: Client, resource: Resource) -> None:
    """Wait until a kind is served, and the API server says so to whoever asks what it serves."""

    async def served() -> None:
        async for _ in client.pages(resource):
            pass
        assert resource in await catalogue(client), f"{resource.qualified} is not among what is served"

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
