"""The command explain: what can be written in `spec.config` of an EventingBackend, from the catalog.

Called by `main`. The same catalog is behind discovery, validation and the documentation.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from quintet.cli import output

if TYPE_CHECKING:
    from quintet.apis.eventingbackend.catalog import BackendType, Key

WIDTH = 100


@click.command(epilog="Exit codes: 0 it was shown, 2 there is nothing of that name.")
@click.argument("subject", type=click.Choice(["backend"]))
@click.argument("type_name", metavar="[TYPE]", required=False)
@click.argument("key_name", metavar="[KEY]", required=False)
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def explain(subject: str, type_name: str | None, key_name: str | None, form: str) -> None:
    """Show the types of backend, the keys of a type, or one key.

    With -o json it is what the discovery endpoint answers.
    """
    from quintet.apis.eventingbackend.catalog import CATALOG
    from quintet.apis.eventingbackend.discovery import backend_types, described, description

    if type_name is None:
        if form == "json":
            output.result_json(backend_types())
        else:
            width = max(map(len, CATALOG))
            for backend in CATALOG.values():
                output.result(f"{backend.name:{width}}  {backend.description}")
        return
    found = CATALOG.get(type_name)
    if found is None:
        raise click.UsageError(f"there is no backend type '{type_name}': there are {', '.join(CATALOG)}")
    if key_name is None:
        if form == "json":
            output.result_json(description(found))
        else:
            output.result(type_text(found))
        return
    key = found.key(key_name)
    if key is None:
        names = ", ".join(each.name for each in found.keys)
        raise click.UsageError(f"backend type {found.name} has no key '{key_name}': there are {names}")
    if form == "json":
        output.result_json(described(key))
    else:
        output.result("\n".join(_key_lines(key)))


def type_text(backend: BackendType) -> str:
    """All that is known about a type."""
    lines = [f"TYPE  {backend.name}", f"      {backend.description}", "", "KEYS of spec.config"]
    for key in backend.keys:
        lines += ["", *(f"  {line}" for line in _key_lines(key))]
    return "\n".join(lines)


def _key_lines(key: Key) -> list[str]:
    from quintet.apis.eventingbackend.words import bounds, usual

    head = f"{key.name}  <{key.data_type}>{'  required' if key.required else ''}"
    facts = [usual(key), *bounds(key)]
    if key.deprecated:
        facts.append(f"deprecated: {key.deprecated}")
    said = textwrap.wrap(key.description, WIDTH)
    return [head, *(f"    {line}" for line in (*said, *facts))]
