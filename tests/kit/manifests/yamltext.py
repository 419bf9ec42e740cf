"""Reads generated YAML with libyaml where available, which is much faster than pure Python."""

from collections.abc import Iterator
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(text: str | bytes) -> Any:
    """Return the one document of a text."""
    return yaml.load(text, Loader=_LOADER)


def load_all(text: str | bytes) -> Iterator[Any]:
    """Yield every document of a text."""
    return yaml.load_all(text, Loader=_LOADER)
