"""Selects the tests of one kind with `--kind checkup`, which `make test KIND=checkup` passes on.

The words in its path decide to which kind a test belongs.
"""

from pathlib import Path

import pytest

WORDS = {
    "jsonserver": ("jsonserver",),
    "eventingbackend": ("backend", "dispatcher", "event", "nats", "publisher", "subscription", "discovery"),
    "statefulcluster": ("statefulcluster",),
    "casconfig": ("casconfig",),
    "checkup": ("checkup",),
    "suite": ("suite", "install", "components"),
}


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--kind", choices=sorted(WORDS), help="run only the tests of one kind")


def belongs_to(kind: str, path: Path) -> bool:
    """Return whether a test file is about the kind."""
    return any(word in str(path) for word in WORDS[kind])


def deselect_other_kinds(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the tests of other kinds from `items` if a kind is selected."""
    kind, tests = config.getoption("kind"), Path(__file__).parents[2]
    if kind is None:
        return
    kept = [item for item in items if belongs_to(kind, item.path.relative_to(tests))]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept
