"""Finds the documentation page of a reason, from the table in docs/troubleshooting.md.

Without that file, the page of the kind is used.
"""

from __future__ import annotations

import functools
import re

from quintet import kinds

FILE = "docs/troubleshooting.md"
MULTI_WORD = "words with spaces"
"""The table's name for reasons of several words."""
_REASON = re.compile(r"`([A-Za-z]+)`")
_LINK = re.compile(r"\[(\w+)\]\(([^)]+)\)")


def find_page(kind: str, reason: str) -> str:
    """Return the page that explains a reason of a kind."""
    return _table().get((kind, MULTI_WORD if " " in reason else reason)) or kind_page(kind)


def kind_page(kind: str) -> str:
    """Return the documentation page of a kind."""
    return next(each.docs_page for each in kinds.all_kinds() if each.name == kind)


@functools.cache
def _table() -> dict[tuple[str, str], str]:
    from quintet.local.paths import find_resource

    try:
        text = find_resource(FILE).read_text()
    except OSError:
        return {}
    return parse_table(text)


def parse_table(text: str) -> dict[tuple[str, str], str]:
    """Return the pages by kind and reason, from the table in a document."""
    found = {}
    for line in text.partition("## By reason")[2].splitlines():
        reasons, _, links = line.removeprefix("| ").partition(" | ")
        for kind, link in _LINK.findall(links):
            for reason in [MULTI_WORD] if reasons.startswith(MULTI_WORD) else _REASON.findall(reasons):
                found[kind, reason] = f"docs/{link}"
    return found
