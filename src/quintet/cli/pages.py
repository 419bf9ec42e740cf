"""From a reason to the page that explains it, by the table of docs/troubleshooting.md itself.

Called by `explain`. The table is read and not repeated, so that both cannot differ; where it was not
shipped, the page of the kind is named.
"""

from __future__ import annotations

import functools
import re

FILE = "docs/troubleshooting.md"
PAGES = {
    "Quintet": "docs/suite.md",
    "JsonServer": "docs/jsonserver.md",
    "Checkup": "docs/checkup.md",
    "CASConfig": "docs/casconfig.md",
    "StatefulCluster": "docs/statefulcluster.md",
    "EventingBackend": "docs/eventingbackend.md",
    "Subscription": "docs/subscription.md",
}
WORDS = "words with spaces"
"""How the table calls reasons that are no names."""
_REASON = re.compile(r"`([A-Za-z]+)`")
_LINK = re.compile(r"\[(\w+)\]\(([^)]+)\)")


def page(kind: str, reason: str) -> str:
    """Where a reason of a kind is explained."""
    return _table().get((kind, WORDS if " " in reason else reason)) or PAGES[kind]


@functools.cache
def _table() -> dict[tuple[str, str], str]:
    from quintet.local.paths import find_resource

    try:
        text = find_resource(FILE).read_text()
    except OSError:
        return {}
    return read(text)


def read(text: str) -> dict[tuple[str, str], str]:
    """The table of reasons of a document."""
    found = {}
    for line in text.partition("## By reason")[2].splitlines():
        reasons, _, links = line.removeprefix("| ").partition(" | ")
        for kind, link in _LINK.findall(links):
            for reason in [WORDS] if reasons.startswith(WORDS) else _REASON.findall(reasons):
                found[kind, reason] = f"docs/{link}"
    return found
