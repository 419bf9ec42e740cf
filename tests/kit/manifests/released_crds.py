"""The CRDs of each released version: `make record` adds those of this version.

    for version, crds in released_crds().items(): ...

Unit tests compare them with the current CRDs to find incompatible changes. Descriptions are omitted: they may always
change, and they are most of the text.
"""

import functools
import json
import sys
from pathlib import Path
from typing import Any

from quintet import __version__
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET
from quintet.components import CUSTOM_RESOURCES
from quintet.controllers.suite.decide.installation import key_of
from quintet.manifests.crd import custom_resource_definition

FOLDER = Path(__file__).parents[2] / "data/released"


@functools.cache
def current_crds() -> dict[str, JsonObject]:
    """Return the CRDs of this version by name."""
    made = [custom_resource_definition(kind) for kind in (*CUSTOM_RESOURCES, QUINTET)]
    return {key_of(each).name: each for each in made}


@functools.cache
def released_crds() -> dict[str, dict[str, JsonObject]]:
    """Return the CRDs of each released version by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def record_crds() -> Path:
    """Write the CRDs of this version to the record."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{__version__}.json"
    path.write_text(json.dumps(_without_descriptions(current_crds()), indent=1, sort_keys=True) + "\n")
    return path


def _without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_descriptions(each) for each in value]
    if not isinstance(value, dict):
        return value
    # A field of that name has a schema, not a text.
    return {
        name: _without_descriptions(each)
        for name, each in value.items()
        if not (name == "description" and isinstance(each, str))
    }


if __name__ == "__main__":
    sys.stdout.write(f"wrote {record_crds()}\n")
