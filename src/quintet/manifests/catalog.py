"""The documentation page with all configuration options of backend types."""

from quintet.apis.eventingbackend.catalog import CATALOG, Catalog
from quintet.apis.eventingbackend.keys import BackendType, Key
from quintet.apis.eventingbackend.words import bounds, usual

HEADER = "<!-- Generated from src/quintet by `make generate`. Changes here are overwritten. -->\n"
INTRODUCTION = """\
# Configuration options of EventingBackends

The options of `spec.config` for each `spec.type`. See [EventingBackend](eventingbackend.md) for their use.
`quintet explain backend TYPE` prints the same list, and `GET /backend/TYPE` of the discovery API returns it.

If an option marked *stored* is not set, its default is stored in the object, so that a new default in a later
release does not move events.
"""


def catalog_page(catalog: Catalog = CATALOG) -> str:
    """Return the page as Markdown."""
    return "\n".join([HEADER + INTRODUCTION, *map(_section, catalog.values())])


def _section(backend: BackendType) -> str:
    rows = "\n".join(map(_row, backend.keys))
    return (
        f"## {backend.name}\n\n{backend.description}\n\n"
        f"| option | type | default | allowed | meaning |\n|---|---|---|---|---|\n{rows}\n"
    )


def _row(key: Key) -> str:
    default = usual(key).removeprefix("default: ")
    shown = f"`{default}`" if key.derived or key.default is not None else default
    if key.required and key.default is not None:
        shown += ", stored"
    allowed = "; ".join(part for part in bounds(key))
    meaning = f"{key.description} Deprecated: {key.deprecated}" if key.deprecated else key.description
    cells = (f"`{key.name}`", str(key.data_type), shown, allowed, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
