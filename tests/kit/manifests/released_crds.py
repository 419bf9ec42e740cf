"""The definitions of our kinds as they were released: `make record` adds those of this version.

    for version, definitions in released().items(): ...

A definition that is there is an answer to the question whether the present one may take its place.
Descriptions are left out: they may always change, and they are most of the text.
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
from quintet.controllers.suite.decide.parts import key_of
from quintet.manifests.crd import definition

FOLDER = Path(__file__).parents[2] / "data/released"


@functools.cache
def present() -> dict[str, JsonObject]:
    """The definitions of this version, by their names."""
    made = [definition(kind) for kind in (*CUSTOM_RESOURCES, QUINTET)]
    return {key_of(each).name: each for each in made}


@functools.cache
def released() -> dict[str, dict[str, JsonObject]]:
    """Version → the definitions that it had, by their names."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def record() -> Path:
    """Write down the definitions of this version."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{__version__}.json"
    path.write_text(json.dumps(_brief(present()), indent=1, sort_keys=True) + "\n")
    return path


def _brief(value: Any) -> Any:
    if isinstance(value, list):
        return [_brief(each) for each in value]
    if not isinstance(value, dict):
        return value
    # A field of that name has a schema, not a text.
    return {
        name: _brief(each)
        for name, each in value.items()
        if not (name == "description" and isinstance(each, str))
    }


if __name__ == "__main__":
    sys.stdout.write(f"wrote {record()}\n")
