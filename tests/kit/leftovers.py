"""Lets the namespaces of finished tests go: nobody else would.

The operator that would take a finalizer away has ended with its test, and so has the node that would end a
pod. The namespace controller then tries again and again, a hundred requests each time, and after some hundred
tests the API server does little else. `kit.cluster.fresh_namespace` marks a namespace when its test is over;
the fixture `api` sweeps meanwhile.
"""

import asyncio
from contextlib import suppress

import aiohttp

from kit.api import Api, RefusedError
from kit.widgets import WIDGETS
from quintet.components import CUSTOM_RESOURCES

OVER = {"test.quintet.dev/over": "yes"}
KINDS = (WIDGETS, *(kind.resource for kind in CUSTOM_RESOURCES if kind.resource.namespaced))
PAUSE = 1.0


async def sweep(api: Api) -> None:
    """Look after the namespaces of finished tests, until cancelled."""
    selector = ",".join(f"{key}={value}" for key, value in OVER.items())
    while True:
        await asyncio.sleep(PAUSE)
        # Some tests kill the API server.
        with suppress(RefusedError, aiohttp.ClientError, TimeoutError):
            for namespace in (await api.get("/api/v1/namespaces", labelSelector=selector))["items"]:
                # It says so once it was tried for the first time: most go then, and nothing is left to do.
                if any(each["status"] == "True" for each in namespace["status"].get("conditions", ())):
                    await _release(api, namespace["metadata"]["name"])


async def _release(api: Api, namespace: str) -> None:
    await api.delete(f"/api/v1/namespaces/{namespace}/pods", gracePeriodSeconds="0")
    for kind in KINDS:
        with suppress(RefusedError):  # not every test defines every kind, and objects go by themselves
            for each in (await api.get(kind.path(namespace)))["items"]:
                if each["metadata"].get("finalizers"):
                    path = kind.path(namespace, each["metadata"]["name"])
                    await api.merge(path, {"metadata": {"finalizers": None}})
