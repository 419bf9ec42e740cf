"""The configuration options of backend types, from the catalog that validation and discovery use too."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from quintet.apis.eventingbackend import discovery
from quintet.apis.eventingbackend.catalog import CATALOG
from quintet.apis.eventingbackend.words import bounds, usual

if TYPE_CHECKING:
    from quintet.apis.eventingbackend.keys import BackendType, Key

WIDTH = 100


class UnknownOption(ValueError):
    """There is no such backend type or key."""


def describe(names: tuple[str, ...]) -> str:
    """Return a text about all backend types, about one TYPE, or about one KEY of it."""
    match _find(names):
        case None:
            width = max(map(len, CATALOG))
            return "\n".join(f"{each.name:{width}}  {each.description}" for each in CATALOG.values())
        case backend, None:
            return describe_type(backend)
        case _, key:
            return "\n".join(_key_lines(key))


def describe_document(names: tuple[str, ...]) -> Any:
    """Return the same as JSON-ready data, in the format of the discovery endpoint."""
    match _find(names):
        case None:
            return discovery.backend_types()
        case backend, None:
            return discovery.description(backend)
        case _, key:
            return discovery.describe_option(key)


def _find(names: tuple[str, ...]) -> tuple[BackendType, Key | None] | None:
    if len(names) > 2:
        raise UnknownOption("name a type and one of its keys: backend TYPE KEY")
    if not names:
        return None
    backend = CATALOG.get(names[0])
    if backend is None:
        raise UnknownOption(f"unknown backend type '{names[0]}'; choose from {', '.join(CATALOG)}")
    if len(names) == 1:
        return backend, None
    key = backend.key(names[1])
    if key is None:
        keys = ", ".join(each.name for each in backend.keys)
        raise UnknownOption(f"backend type {backend.name} has no key '{names[1]}'; choose from {keys}")
    return backend, key


def describe_type(backend: BackendType) -> str:
    """Return a text about a backend type and all its keys."""
    lines = [f"TYPE  {backend.name}", f"      {backend.description}", "", "KEYS of spec.config"]
    for key in backend.keys:
        lines += ["", *(f"  {line}" for line in _key_lines(key))]
    return "\n".join(lines)


def _key_lines(key: Key) -> list[str]:
    head = f"{key.name}  <{key.data_type}>{'  required' if key.required else ''}"
    facts = [usual(key), *bounds(key)]
    if key.deprecated:
        facts.append(f"deprecated: {key.deprecated}")
    return [head, *(f"    {line}" for line in (*textwrap.wrap(key.description, WIDTH), *facts))]
