"""Prints the logs of pods: of an object or a controller, once or while they grow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from quintet.apis.meta import JsonObject, ObjectKey
from quintet.apis.subscription import SUBSCRIPTIONS
from quintet.components import COMPONENTS
from quintet.inspect.containers import ContainerLog, list_logs, prefix_lines, waiting_containers
from quintet.inspect.follow import WatchTarget, follow_changes
from quintet.inspect.relations.owned_objects import find_owned_objects
from quintet.inspect.relations.owners import OwnerLookup, object_ref
from quintet.inspect.relations.subscriptions import dispatcher_selector
from quintet.kube.client import PODS
from quintet.kube.errors import ApiError, KubeError
from quintet.local.errors import LocalError
from quintet.manifests.installation import KIAGNOSE, QUINTET

if TYPE_CHECKING:
    from quintet.inspect.kinds import ObjectName
    from quintet.kube.client import Client

OPERATOR = "operator"
CONTROLLERS = (*COMPONENTS, OPERATOR)
MAX_BYTES = 64 * 1024 * 1024
NAME, PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"

Filter = Callable[[JsonObject], Awaitable[bool]]


def controller_selector(name: str) -> str:
    """Return the label selector of a controller's pods, in every topology and flavour."""
    processes: list[str] = []
    for flavour in (QUINTET, KIAGNOSE):
        if name == OPERATOR:
            processes.append(flavour.operator)
        else:
            processes += [flavour.part.format(name), flavour.whole]
    return f"{PART_OF}=quintet,{NAME} in ({','.join(dict.fromkeys(processes))})"


@dataclass(frozen=True, slots=True)
class LogPrinter:
    """Prints log lines with `result` and remarks with `report`."""

    client: Client
    result: Callable[[str], None]
    report: Callable[[str], None]
    tail: int
    """Lines of each container to start with."""

    async def print_object(self, named: ObjectName, key: ObjectKey, *, previous: bool) -> None:
        """Print the logs of all pods that an object owns, or that deliver the events of a Subscription."""
        resource = named.kind.resource
        body = await self.client.get(resource, key, JsonObject)
        if resource == SUBSCRIPTIONS:
            pods = await self._list_pods(key.namespace, dispatcher_selector(body))
        else:
            found = await find_owned_objects(self.client, resource, body)
            pods = [each.body for each in found.root.walk() if each.resource.kind == "Pod" and each.body]
        if not pods:
            raise LocalError(
                f"{resource.kind} {named.name} has no pods",
                f"run `quintet explain {resource.kind.lower()}/{named.name}` to see why",
            )
        await self._print(pods, previous=previous)

    async def print_controller(self, name: str, namespace: str, *, previous: bool) -> None:
        """Print the logs of a controller's pods."""
        pods = await self._list_pods(namespace, controller_selector(name))
        if not pods:
            raise LocalError(
                f"controller {name} has no pods in namespace {namespace}",
                "run `quintet status quintet/quintet` to see what runs; -n selects another namespace",
            )
        await self._print(pods, previous=previous)

    async def follow_object(self, named: ObjectName, key: ObjectKey) -> None:
        """Print the logs of the same pods as `print_object`, now and later; ends only with an error."""
        body = await self.client.get(named.kind.resource, key, JsonObject)
        if named.kind.resource == SUBSCRIPTIONS:
            return await self._follow(key.namespace, dispatcher_selector(body))
        meta, owners = body["metadata"], await OwnerLookup.of(self.client)

        async def is_owned(pod: JsonObject) -> bool:
            ref = object_ref("v1", "Pod", *(pod["metadata"][field] for field in ("namespace", "name", "uid")))
            return any(each.uid == meta["uid"] for each in await owners.find_owners(ref))

        await self._follow(meta.get("namespace", ""), "", is_owned)

    async def follow_controller(self, name: str, namespace: str) -> None:
        """Print the logs of a controller's pods, now and later; ends only with an error."""
        await self._follow(namespace, controller_selector(name))

    async def _list_pods(self, namespace: str, labels: str) -> list[JsonObject]:
        pods: list[JsonObject] = []
        async for page in self.client.pages(PODS, namespace=namespace, labels=labels):
            pods += [msgspec.json.decode(item) for item in page.items]
        return pods

    async def _print(self, pods: Sequence[JsonObject], *, previous: bool) -> None:
        """Print one container after the other; a log that cannot be read does not hide the others."""
        failed: ApiError | None = None
        shown = 0
        for pod in pods:
            for each in list_logs(pod):
                try:
                    log = await self.client.logs(
                        ObjectKey(each.namespace, each.pod),
                        each.container,
                        lines=self.tail,
                        limit=MAX_BYTES,
                        previous=previous,
                    )
                except ApiError as error:
                    failed = error
                    self.report(f"{each.prefix}cannot read the log: {error.message or error}")
                    continue
                shown += 1
                for line in prefix_lines(each, log):
                    self.result(line)
            for text in waiting_containers(pod):
                self.report(f"no log yet: {text}")
        if failed is not None and not shown:
            raise failed

    async def _follow(self, namespace: str, labels: str, is_selected: Filter | None = None) -> None:
        streams: dict[ContainerLog, asyncio.Task[None]] = {}
        started: set[str] = set()
        targets = [WatchTarget(PODS, namespace, labels)]
        try:
            async for change in follow_changes(self.client, targets, self.report):
                new = [each for each in list_logs(change.body) if each not in streams]
                if change.deleted or not new or (is_selected and not await is_selected(change.body)):
                    continue
                for each in new:
                    # After a restart, print the whole new log: nothing of it was printed before.
                    restarted = each.uid + each.container in started
                    started.add(each.uid + each.container)
                    streams[each] = asyncio.create_task(self._stream(each, None if restarted else self.tail))
        finally:
            for task in streams.values():
                task.cancel()
            await asyncio.gather(*streams.values(), return_exceptions=True)

    async def _stream(self, source: ContainerLog, tail: int | None) -> None:
        key = ObjectKey(source.namespace, source.pod)
        try:
            async with self.client.log_lines(key, source.container, lines=tail) as batches:
                async for lines in batches:
                    for line in lines:
                        self.result(f"{source.prefix}{line.decode(errors='replace')}")
            self.report(f"{source.prefix}the container has ended")
        except KubeError as error:
            self.report(f"{source.prefix}cannot read the log: {error}")
