"""The catalog of backends → the page of the documentation that lists every key. Called by `files`."""

from quintet.apis.eventingbackend.catalog import CATALOG, BackendType, Catalog, Key
from quintet.apis.eventingbackend.words import bounds, usual

HEADER = "<!-- Generated from src/quintet by `make generate`. Changes here are overwritten. -->\n"
INTRODUCTION = """\
# Keys of an EventingBackend

What may stand in `spec.config`, by `spec.type`. How to use them: [EventingBackend](eventingbackend.md).
The same is shown by `quintet explain backend TYPE` and served at `GET /backend/TYPE`.

A key that is marked *kept* is written into the object with its default when it is left out, so that
another default in a later release moves no events.
"""


def catalog_page(catalog: Catalog = CATALOG) -> str:
    """The whole page."""
    return "\n".join([HEADER + INTRODUCTION, *map(_section, catalog.values())])


def _section(backend: BackendType) -> str:
    rows = "\n".join(map(_row, backend.keys))
    return (
        f"## {backend.name}\n\n{backend.description}\n\n"
        f"| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n{rows}\n"
    )


def _row(key: Key) -> str:
    default = usual(key).removeprefix("default: ")
    shown = f"`{default}`" if key.derived or key.default is not None else default
    if key.required and key.default is not None:
        shown += ", kept"
    allowed = "; ".join(part for part in bounds(key))
    meaning = f"{key.description} Deprecated: {key.deprecated}" if key.deprecated else key.description
    cells = (f"`{key.name}`", str(key.data_type), shown, allowed, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
