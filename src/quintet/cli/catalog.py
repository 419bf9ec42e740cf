"""What `explain backend` shows: what can be written in `spec.config` of an EventingBackend, from the catalog.

Called by `explaining`. The same catalog is behind discovery, validation and the documentation.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from quintet.cli import output

if TYPE_CHECKING:
    from quintet.apis.eventingbackend.catalog import BackendType, Key

WIDTH = 100


def show(names: tuple[str, ...], form: str) -> None:
    """Show the types of backend, the keys of a type, or one key."""
    from quintet.apis.eventingbackend.catalog import CATALOG
    from quintet.apis.eventingbackend.discovery import backend_types, described, description

    if len(names) > 2:
        raise click.UsageError("name a type and one of its keys: backend TYPE KEY")
    type_name, key_name = (*names, None, None)[:2]
    if type_name is None:
        if form:
            output.result_as(form, backend_types())
        else:
            width = max(map(len, CATALOG))
            for backend in CATALOG.values():
                output.result(f"{backend.name:{width}}  {backend.description}")
        return
    found = CATALOG.get(type_name)
    if found is None:
        raise click.UsageError(f"there is no backend type '{type_name}': there are {', '.join(CATALOG)}")
    if key_name is None:
        if form:
            output.result_as(form, description(found))
        else:
            output.result(type_text(found))
        return
    key = found.key(key_name)
    if key is None:
        keys = ", ".join(each.name for each in found.keys)
        raise click.UsageError(f"backend type {found.name} has no key '{key_name}': there are {keys}")
    if form:
        output.result_as(form, described(key))
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
