"""The verb preview."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject
    from quintet.controllers.preview import Preview


@click.command(epilog="Exit codes: 0 success, 1 validation errors, 2 usage error.")
@options.manifest_options
@options.namespace_default
@click.option(
    "-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
)
def preview(paths: tuple[str, ...], recursive: bool, namespace: str, form: str) -> None:
    """Print the objects that controllers would create for manifests, without a cluster.

    Comments mark what only the cluster can know. Objects of other products are skipped.
    """
    from quintet.authoring.preview import preview_children
    from quintet.authoring.validation import (
        apply_defaults,
        format_finding,
        list_findings,
        validate_document,
    )

    shown: list[tuple[JsonObject, Preview]] = []
    failed, skipped = False, 0
    for document in options.read_manifests(paths, recursive=recursive):
        result = validate_document(document, namespace)
        for finding in list_findings(document, namespace, result):
            click.echo(format_finding(finding), err=True)
        if result is not None and result.errors:
            failed = True
            continue
        obj = apply_defaults(document.value, namespace)
        children = preview_children(obj)
        skipped += children is None
        if children is not None:
            shown.append((obj, children))
    if form == "json":
        entries = [{**_object_name(obj), **children._asdict()} for obj, children in shown]
        output.result_json({"objects": entries})
    else:
        output.result("\n".join(text for obj, children in shown for text in _lines(obj, children)))
    if skipped:
        output.progress(f"{skipped} of other products skipped")
    raise click.exceptions.Exit(1 if failed else 0)


def _object_name(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    return {"kind": obj["kind"], "namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}


def _lines(obj: JsonObject, found: Preview) -> Iterator[str]:
    from quintet.authoring.annotated_yaml import comment_lines, dump_yaml

    named = _object_name(obj)
    name = f"{named['namespace']}/{named['name']}" if named["namespace"] else named["name"]
    count = f": its controller creates {len(found.children)} objects" if found.children else ""
    yield "---"
    yield f"# {named['kind']} {name}{count}."
    for note in found.notes:
        yield from comment_lines(note)
    for number, child in enumerate(found.children):
        if number:
            yield "---"
        yield from dump_yaml(child)
