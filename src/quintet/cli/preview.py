"""The command preview: the objects that controllers would make for a manifest, without a cluster.

Called by `main`. First it says the mistakes, in the words of `validate`; then `children` says what
would be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import output
from quintet.cli.options import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject
    from quintet.cli.children import Made


@click.command(epilog="Exit codes: 0 it was printed, 1 there are mistakes, 2 it was called wrongly.")
@manifests
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Of objects that do not say theirs."
)
@click.option(
    "-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True
)
def preview(paths: tuple[str, ...], recursive: bool, namespace: str, form: str) -> None:
    """Print the objects that the controllers would make for manifests, without a cluster.

    Comments say what only the cluster can know. Objects of other products are left alone.
    """
    from quintet.cli.children import children
    from quintet.cli.validate import findings, judged, line, read, stored

    shown: list[tuple[JsonObject, Made]] = []
    mistaken, others = False, 0
    for document in read(paths, recursive=recursive):
        verdict = judged(document, namespace)
        for finding in findings(document, namespace, verdict):
            click.echo(line(finding), err=True)
        mistaken = mistaken or bool(verdict.errors)
        if verdict.errors:
            continue
        obj = stored(document.value, namespace)
        made = children(obj)
        others += made is None
        if made is not None:
            shown.append((obj, made))
    if form == "json":
        entries = [{**_named(obj), **made._asdict()} for obj, made in shown]
        output.result_json({"objects": entries})
    else:
        output.result("\n".join(text for obj, made in shown for text in _lines(obj, made)))
    if others:
        output.progress(f"{others} of other products left alone")
    raise click.exceptions.Exit(1 if mistaken else 0)


def _named(obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    return {"kind": obj["kind"], "namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}


def _lines(obj: JsonObject, made: Made) -> Iterator[str]:
    from quintet.cli.annotated import dumped, remark

    named = _named(obj)
    where = f"{named['namespace']}/{named['name']}" if named["namespace"] else named["name"]
    yield "---"
    yield f"# {named['kind']} {where}{f' makes {len(made.children)} objects' if made.children else ''}."
    for note in made.notes:
        yield from remark(note)
    for number, child in enumerate(made.children):
        if number:
            yield "---"
        yield from dumped(child)
