"""The command diff: what applying manifests would change, as the API server itself says it.

Called by `main`. Each object is applied with a dry run, which also asks the webhooks, and compared with
what is there; for kinds of ours `children` says what the controller would then make of it. Like
`kubectl diff` it ends with 1 if there is a difference, so every trouble ends with 2.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import click

from quintet.cli import asking, output
from quintet.cli.options import manifests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from quintet.apis.meta import JsonObject, ObjectKey, Resource
    from quintet.kube.client import Client

TROUBLE = 2
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# What the server keeps for itself: it differs without meaning anything.
_KEPT_BY_THE_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


@click.command(
    epilog="Exit codes: 0 nothing would change, 1 something would, 2 or more: it failed, the manifests have "
    "mistakes, or it was called wrongly."
)
@manifests
@asking.where
@click.option(
    "--children/--no-children",
    default=True,
    show_default=True,
    help="Also what controllers would make of it.",
)
def diff(paths: tuple[str, ...], recursive: bool, where: asking.Where, children: bool) -> None:
    """Show what applying manifests would change, and what controllers would then change.

    The server applies them with a dry run, under your rights; nothing is changed. Drift that a controller
    mends by itself is not shown, nor what a CASConfig would change: see spec.mode: Preview.
    """
    import asyncio

    from quintet.cli.explain import explain
    from quintet.kube.errors import KubeError
    from quintet.local.errors import LocalError

    try:
        differs = asyncio.run(_differs(paths, where, recursive=recursive, children=children))
    except KubeError as error:
        output.error(*explain(error))
        raise click.exceptions.Exit(TROUBLE) from error
    except LocalError as error:
        output.error(error.message, error.next_step)
        raise click.exceptions.Exit(TROUBLE) from error
    raise click.exceptions.Exit(1 if differs else 0)


async def _differs(paths: tuple[str, ...], where: asking.Where, *, recursive: bool, children: bool) -> bool:
    from quintet.cli.validate import findings, judged, line, read
    from quintet.kube.discovery import list_resources
    from quintet.local.errors import LocalError

    async with asking.connected(where) as asked:
        documents = list(read(paths, recursive=recursive))
        said = [
            finding
            for each in documents
            for finding in findings(each, asked.namespace, judged(each, asked.namespace))
        ]
        for finding in said:
            click.echo(line(finding), err=True)
        if any(finding["severity"] == "error" for finding in said):
            raise LocalError("the manifests have mistakes", "correct what is named above")
        served, found = await list_resources(asked.client), list[str]()
        for document in documents:
            obj = document.value
            resource = _resource(obj, served)
            name = obj["metadata"].get("name", "")
            if not name:
                raise LocalError(f"a {obj['kind']} has no name", "give metadata.name, to compare it by")
            namespace = obj["metadata"].get("namespace") or asked.namespace
            key = asked.key(resource, name)._replace(namespace=namespace if resource.namespaced else "")
            before, after = await _tried(asked.client, resource, key, obj)
            found += differences(before, after)
            if children:
                found += child_differences(before, after)
    if found:
        output.result("\n".join(found))
    return bool(found)


def _resource(obj: JsonObject, served: Iterable[Resource]) -> Resource:
    from quintet.local.errors import LocalError

    kind = obj["apiVersion"], obj["kind"]
    found = next((each for each in served if (each.api_version, each.kind) == kind), None)
    if found is None:
        message = f"the cluster knows no {obj['kind']} of {obj['apiVersion']}"
        raise LocalError(message, "check both words; `quintet doctor` tells whether Quintet is installed")
    return found


async def _tried(
    client: Client, resource: Resource, key: ObjectKey, obj: JsonObject
) -> tuple[JsonObject | None, JsonObject]:
    """The object as it is, if it is there, and as it would be."""
    import json

    from quintet.apis.meta import JsonObject
    from quintet.kube.errors import NotFound

    body = {**obj, "metadata": {**obj["metadata"], **({"namespace": key.namespace} if key.namespace else {})}}
    # What others have set is taken over, as `kubectl apply` does.
    client = client.with_manager("kubectl")
    try:
        before = await client.get(resource, key, JsonObject)
    except NotFound:
        return None, await client.apply(resource, key, body, JsonObject, dry_run=True)
    applied = (before["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if applied is None:
        return before, await client.apply(resource, key, body, JsonObject, dry_run=True)
    # kubectl writes down that there are none, and always has one: its own.
    body["metadata"].setdefault("annotations", {})
    change = three_way(json.loads(applied), body)
    return before, await client.patch(resource, key, change, JsonObject, dry_run=True)


def three_way(applied: Any, wanted: JsonObject) -> JsonObject:
    """A merge patch to what is wanted, which takes out what was applied before and is not wanted any more."""
    patch: JsonObject = {}
    for name, value in wanted.items():
        below = applied.get(name) if isinstance(applied, dict) else None
        patch[name] = three_way(below, value) if isinstance(value, dict) else value
    if isinstance(applied, dict):
        patch |= {name: None for name in applied if name not in wanted and name != "status"}
    return patch


def differences(before: JsonObject | None, after: JsonObject) -> list[str]:
    """A unified diff of one object, without what the server keeps for itself; empty if there is none."""
    return _unified(_shown(before), _shown(after), _title(after))


def child_differences(before: JsonObject | None, after: JsonObject) -> list[str]:
    """The same of everything that its controller makes for it."""
    from quintet.cli.children import children

    old = children(before) if before is not None else None
    new = children(after)
    if new is None:
        return []
    known = {_title(each): each for each in (old.children if old is not None else ())}
    wanted = {_title(each): each for each in new.children}
    lines: list[str] = []
    for title in {**known, **wanted}:
        lines += _unified(_shown(known.get(title)), _shown(wanted.get(title)), title)
    return lines


def _title(obj: JsonObject) -> str:
    metadata = obj["metadata"]
    where = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return f"{obj['kind']} {where}"


def _shown(obj: JsonObject | None) -> list[str]:
    from quintet.cli.annotated import dumped

    if obj is None:
        return []
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _KEPT_BY_THE_SERVER}
    notes = {
        key: value for key, value in (metadata.pop("annotations", None) or {}).items() if key != LAST_APPLIED
    }
    if notes:
        metadata["annotations"] = notes
    return dumped({**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata})


def _unified(before: list[str], after: list[str], title: str) -> list[str]:
    made: Iterator[str] = difflib.unified_diff(before, after, f"live/{title}", f"new/{title}", lineterm="")
    return list(made)
