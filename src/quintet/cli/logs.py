"""The command logs: what the pods of an object say, or those of a controller, each line with its pod.

Called by `main`. Pods of an object are found by `family`; while it follows, those that come later are
found by their owners. Those of a controller are found by the labels of an installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, kinds, output
from quintet.cli.containers import marked, sources, waiting

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Sequence

    from quintet.apis.meta import JsonObject
    from quintet.cli.asking import Asked, Where
    from quintet.cli.containers import Source

    Wanted = Callable[[JsonObject], Awaitable[bool]]

CONTROLLER = "controller"
OPERATOR = "operator"
MOST_BYTES = 64 * 1024 * 1024
NAME, PART_OF = "app.kubernetes.io/name", "app.kubernetes.io/part-of"


@click.command(
    epilog="Exit codes: 0 it was shown, 1 it failed, 2 it was called wrongly, 130 it was interrupted."
)
@click.argument("typed", metavar="KIND NAME | controller NAME", nargs=-1, required=True)
@asking.where
@click.option("-f", "--follow", is_flag=True, help="Go on, also with pods that come later.")
@click.option(
    "--tail", type=click.IntRange(min=0), default=200, show_default=True, help="Lines of each container."
)
@click.option("-p", "--previous", is_flag=True, help="Before the last restart of each container.")
def logs(typed: tuple[str, ...], where: Where, follow: bool, tail: int, previous: bool) -> None:
    """Show what the pods of an object say: all containers, each line with its pod in front.

    `quintet logs controller NAME` shows a controller of the suite, or the `operator` itself.
    """
    if follow and previous:
        raise click.UsageError("-p is about what is over: leave -f out")
    if typed[0] == CONTROLLER:
        asking.run(_of_controller(where, typed[1:], follow, tail, previous))
    else:
        asking.run(_of_object(where, kinds.object_of(typed), follow, tail, previous))


async def _of_object(where: Where, named: kinds.Named, follow: bool, tail: int, previous: bool) -> None:
    from quintet.apis.meta import JsonObject
    from quintet.cli.ancestry import Ancestry, being
    from quintet.cli.family import family
    from quintet.local.errors import LocalError

    async with asking.connected(where) as asked:
        resource = named.kind.resource
        body = await asked.client.get(resource, asked.key(resource, named.name), JsonObject)
        if not follow:
            found = await family(asked.client, resource, body)
            pods = [each.body for each in found.root.all() if each.resource.kind == "Pod" and each.body]
            if not pods:
                raise LocalError(
                    f"{resource.kind} {named.name} has no pod now",
                    f"`quintet explain {resource.kind.lower()}/{named.name}` says why, if it should have one",
                )
            await _show(asked, pods, tail, previous)
            return
        ancestry, uid = await Ancestry.of(asked.client), body["metadata"]["uid"]

        async def is_meant(pod: JsonObject) -> bool:
            meta = pod["metadata"]
            line = await ancestry.line(being("v1", "Pod", meta["namespace"], meta["name"], meta["uid"]))
            return any(each.uid == uid for each in line)

        await _follow(asked, body["metadata"].get("namespace", ""), "", tail, is_meant)


async def _of_controller(
    where: Where, names: tuple[str, ...], follow: bool, tail: int, previous: bool
) -> None:
    import msgspec

    from quintet.kube.client import PODS
    from quintet.local.errors import LocalError
    from quintet.manifests.rbac import SYSTEM_NAMESPACE

    labels = selector(names)
    namespace = where.namespace or SYSTEM_NAMESPACE
    async with asking.connected(where) as asked:
        if follow:

            async def is_meant(pod: JsonObject) -> bool:
                return True

            await _follow(asked, namespace, labels, tail, is_meant)
        pods: list[JsonObject] = []
        async for page in asked.client.pages(PODS, namespace=namespace, labels=labels):
            pods += [msgspec.json.decode(item) for item in page.items]
        if not pods:
            raise LocalError(
                f"there is no pod of controller {names[0]} in namespace {namespace}",
                "`quintet status quintet/quintet` tells what runs; -n names another namespace",
            )
        await _show(asked, pods, tail, previous)


def selector(names: Sequence[str]) -> str:
    """Finds the pods of a controller, whether it runs alone or with the others, in every flavour."""
    from quintet.components import COMPONENTS
    from quintet.manifests.installation import KIAGNOSE, QUINTET

    known = (*COMPONENTS, OPERATOR)
    if len(names) != 1 or names[0] not in known:
        raise click.UsageError(f"name one controller: {', '.join(known)}")
    processes: list[str] = []
    for flavour in (QUINTET, KIAGNOSE):
        if names[0] == OPERATOR:
            processes.append(flavour.operator)
        else:
            processes += [flavour.part.format(names[0]), flavour.whole]
    return f"{PART_OF}=quintet,{NAME} in ({','.join(dict.fromkeys(processes))})"


async def _show(asked: Asked, pods: Sequence[JsonObject], tail: int, previous: bool) -> None:
    """What was said so far, container by container; one that cannot be read does not hide the others."""
    from quintet.apis.meta import ObjectKey
    from quintet.kube.errors import ApiError

    failed: ApiError | None = None
    shown = 0
    for pod in pods:
        for each in sources(pod):
            try:
                log = await asked.client.logs(
                    ObjectKey(each.namespace, each.pod),
                    each.container,
                    lines=tail,
                    limit=MOST_BYTES,
                    previous=previous,
                )
            except ApiError as error:
                failed = error
                output.progress(f"{each.front}cannot be read: {error.message or error}")
                continue
            shown += 1
            for line in marked(each, log):
                output.result(line)
        for text in waiting(pod):
            output.progress(f"no log yet of {text}")
    if failed is not None and not shown:
        raise failed


async def _follow(asked: Asked, namespace: str, labels: str, tail: int, is_meant: Wanted) -> None:
    """Every container of every pod that is meant, from its last lines on; ends by an error only."""
    import asyncio

    from quintet.cli.following import What, changes
    from quintet.kube.client import PODS

    streams: dict[Source, asyncio.Task[None]] = {}
    begun: set[str] = set()
    try:
        async for change in changes(asked.client, [What(PODS, namespace, labels)]):
            new = [each for each in sources(change.body) if each not in streams]
            if change.gone or not new or not await is_meant(change.body):
                continue
            for each in new:
                # What was said before a restart is in the log before; after it, nothing is to be missed.
                known = each.uid + each.container in begun
                begun.add(each.uid + each.container)
                streams[each] = asyncio.create_task(_stream(asked, each, None if known else tail))
    finally:
        for task in streams.values():
            task.cancel()
        await asyncio.gather(*streams.values(), return_exceptions=True)


async def _stream(asked: Asked, source: Source, tail: int | None) -> None:
    from quintet.apis.meta import ObjectKey
    from quintet.kube.errors import KubeError

    key = ObjectKey(source.namespace, source.pod)
    try:
        async with asked.client.log_lines(key, source.container, lines=tail) as batches:
            async for lines in batches:
                for line in lines:
                    output.result(f"{source.front}{line.decode(errors='replace')}")
        output.progress(f"{source.front}has ended")
    except KubeError as error:
        output.progress(f"{source.front}cannot be read: {error}")
