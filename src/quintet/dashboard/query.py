"""Which objects the overview shows: the filters and the page in a URL. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from quintet.inspect.status import Rating

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from quintet.inspect.status import ObjectStatus

PAGE_SIZE = 100
HEALTH = {"problems": Rating.BAD, "unknown": Rating.OPEN, "ready": Rating.GOOD}
"""The values of the filter by health."""
_ORDER = (Rating.BAD, Rating.OPEN, Rating.GOOD)


@dataclass(frozen=True, slots=True)
class Query:
    """The filters of the overview; an empty one selects everything."""

    kind: str = ""
    namespace: str = ""
    health: str = ""
    text: str = ""
    page: int = 1

    def url(self, **changes: Any) -> str:
        """Return the URL of the overview with these filters changed; by default its first page."""
        changed = replace(self, **{"page": 1, **changes})
        shown = {name: value for name, value in asdict(changed).items() if value != _DEFAULTS[name]}
        return f"/?{urlencode(shown)}" if shown else "/"


_DEFAULTS = asdict(Query())


def parse_query(query: str) -> Query:
    """Return the filters of a query string; what is not valid is ignored."""
    found = {name: values[-1][:253] for name, values in parse_qs(query).items()}
    page = found.get("page", "")
    return Query(
        kind=found.get("kind", ""),
        namespace=found.get("namespace", ""),
        health=found.get("health", "") if found.get("health") in HEALTH else "",
        text=found.get("text", "").strip(),
        page=max(int(page), 1) if page.isascii() and page.isdigit() and len(page) < 6 else 1,
    )


@dataclass(frozen=True, slots=True)
class Selected:
    """One page of the selected objects."""

    shown: Sequence[ObjectStatus]
    total: int
    page: int
    pages: int


def select(statuses: Iterable[ObjectStatus], query: Query) -> Selected:
    """Return the page of objects that match all filters; those with problems come first."""
    rating = HEALTH.get(query.health)
    text = query.text.lower()
    found = [
        each
        for each in statuses
        if (not query.kind or each.kind == query.kind)
        and (not query.namespace or each.namespace == query.namespace)
        and (rating is None or each.rating is rating)
        and (not text or text in each.name.lower() or text in f"{each.reason} {each.message}".lower())
    ]
    found.sort(key=lambda each: (_ORDER.index(each.rating), each.kind, each.namespace, each.name))
    pages = max(-(-len(found) // PAGE_SIZE), 1)
    page = min(query.page, pages)
    return Selected(found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE], len(found), page, pages)
