"""A small kind and its operator, for tests of the runtime on a real API server.

A Widget owns a ConfigMap, a Service and a Deployment: together they have every type of field of server-side apply
(scalars, maps, lists by key, atomic lists). `python -m kit.kinds.widgets KUBECONFIG …` runs the operator as a process.
"""

import argparse
import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from quintet.apis.meta import Condition, JsonObject, Object, ObjectKey, Resource, Struct
from quintet.clock import SystemClock
from quintet.kube import config
from quintet.kube.client import Client
from quintet.kube.errors import KubeError
from quintet.kube.transport import Transport
from quintet.observe import logging as logs
from quintet.runtime import conditions, finalizers
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.leader import Terms
from quintet.runtime.manager import Manager
from quintet.runtime.reconcile import Result, TerminalError
from quintet.runtime.watch import WatchTimeouts

WIDGETS = Resource("test.quintet.dev", "v1", "Widget", "widgets")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SERVICES = Resource("", "v1", "Service", "services")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
CHILD_TYPES = (CONFIG_MAPS, SERVICES, DEPLOYMENTS)
FINALIZER = "test.quintet.dev/widget"
SELECTOR = "app.kubernetes.io/managed-by=quintet-widget"

CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.test.quintet.dev"},
    "spec": {
        "group": WIDGETS.group,
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


async def install(client: Client) -> None:
    """Install the CRD."""
    # An operator that is started again and again should not load what only tests need: it takes four times as long.
    from kit.eventually import eventually
    from kit.kinds.controllers import CRDS, wait_until_served

    await client.apply(CRDS, ObjectKey("", CRD["metadata"]["name"]), CRD, Object)
    await wait_until_served(client, WIDGETS)

    async def list_widgets() -> None:
        async with client.watch(WIDGETS, initial_events=True) as batches:
            async for _ in batches:
                return

    await eventually(list_widgets)


class WidgetSpec(Struct, frozen=True):
    text: str = "text"
    replicas: int = 1
    extra_label: str = ""
    mode: str = ""


class WidgetStatus(Struct, frozen=True):
    observed_generation: int = 0
    message: str = ""
    conditions: tuple[Condition, ...] = ()


class Widget(Object, frozen=True):
    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


def a_widget(name: str, **spec: Any) -> JsonObject:
    return {"apiVersion": WIDGETS.api_version, "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def desired(widget: Widget) -> list[tuple[Resource, JsonObject]]:
    """Return the desired children of a Widget."""
    name = widget.metadata.name
    labels = {"app": name, "app.kubernetes.io/managed-by": "quintet-widget"}
    if widget.spec.extra_label:
        labels["extra"] = widget.spec.extra_label
    metadata = {"name": name, "namespace": widget.metadata.namespace, "labels": labels}
    container = {
        "name": "main",
        "image": "quintet.local/none:1",
        "args": ["--text", widget.spec.text],
        "env": [{"name": "TEXT", "value": widget.spec.text}],
        "ports": [{"name": "http", "containerPort": 3000, "protocol": "TCP"}],
        "volumeMounts": [{"name": "config", "mountPath": "/data"}],
        "resources": {"requests": {"cpu": "10m"}},
    }
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "config", "configMap": {"name": name}}],
        },
    }
    deployment = {
        "replicas": widget.spec.replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod,
    }
    ports = [{"name": "http", "port": 3000, "targetPort": 3000, "protocol": "TCP"}]
    return [
        (
            CONFIG_MAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": metadata,
                "data": {"text": widget.spec.text},
            },
        ),
        (
            SERVICES,
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"type": "ClusterIP", "selector": {"app": name}, "ports": ports},
            },
        ),
        (
            DEPLOYMENTS,
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployment},
        ),
    ]


class WidgetController:
    def __init__(self, builder: Builder[Widget]) -> None:
        self._primary = builder.primary
        self._client = builder.client
        self._children = builder.children
        self._status = builder.status
        self._clock = builder.clock
        self._events = builder.events
        self.runs: list[ObjectKey] = []

    async def reconcile(self, key: ObjectKey) -> Result:
        self.runs.append(key)
        widget = self._primary.get(key)
        if widget is None:
            return Result.done()
        if widget.spec.mode == "crash":
            raise RuntimeError("this widget crashes its reconciler")
        if widget.spec.mode == "terminal":
            raise TerminalError("this widget cannot be helped")
        if widget.metadata.deleting:
            return await self._delete(widget)
        if widget.spec.mode == "finalized":
            await finalizers.add(self._client, WIDGETS, widget, FINALIZER)
        problem = ""
        try:
            for resource, body in desired(widget):
                await self._children.ensure(widget, resource, body)
        except (ForeignObject, KubeError) as error:
            problem = str(error)
            if not isinstance(error, ForeignObject):
                raise
        finally:
            await self._write_status(widget, problem)
        return Result.after(1.0) if problem else Result.done()

    async def _delete(self, widget: Widget) -> Result:
        gone = [
            await self._children.remove(widget, resource, body["metadata"]["name"])
            for resource, body in desired(widget)
        ]
        if all(gone):
            await finalizers.remove(self._client, WIDGETS, widget, FINALIZER)
        return Result.done()

    async def _write_status(self, widget: Widget, problem: str) -> None:
        generation = widget.metadata.generation
        ready = Condition(
            "Ready", "False" if problem else "True", "Problem" if problem else "AsWanted", message=problem
        )
        status = WidgetStatus(
            generation,
            problem or "reconciled",
            conditions.merge(widget.status.conditions, (ready,), generation, self._clock.now()),
        )
        await self._status.write(widget, widget.status, status)


def build(manager: Manager, workers: int = 8) -> WidgetController:
    builder = Builder(manager, "widget", WIDGETS, Widget)
    for resource in CHILD_TYPES:
        builder.owns(resource, labels=SELECTOR)
    controller = WidgetController(builder)
    builder.build(controller.reconcile, workers=workers)
    return controller


@contextlib.asynccontextmanager
async def widget_operator(kubeconfig: Path, **options: Any) -> AsyncIterator[WidgetController]:
    """Run the controller in this process while inside."""
    async with Transport(config.load(str(kubeconfig))) as transport:
        manager = Manager(Client(transport), SystemClock(), f"test-{secrets.token_hex(3)}", **options)
        controller = build(manager)
        task = asyncio.create_task(manager.run())
        try:
            await manager.wait_for_sync()
            yield controller
        finally:
            manager.stop()
            await task


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kubeconfig")
    parser.add_argument("--namespace", default="")
    parser.add_argument("--lease", default="")
    parser.add_argument("--terms", type=float, nargs=3, default=[15.0, 10.0, 2.0])
    parser.add_argument("--stall", type=float, default=90.0)
    arguments = parser.parse_args()
    logs.set_up("text")
    async with Transport(config.load(arguments.kubeconfig)) as transport:
        manager = Manager(
            Client(transport),
            SystemClock(),
            f"process-{secrets.token_hex(3)}",
            namespace=arguments.namespace,
            lease=ObjectKey(arguments.namespace, arguments.lease) if arguments.lease else None,
            terms=Terms(*arguments.terms),
            timeouts=WatchTimeouts(stall=arguments.stall),
        )
        build(manager)
        await manager.run()


if __name__ == "__main__":
    asyncio.run(_main())
