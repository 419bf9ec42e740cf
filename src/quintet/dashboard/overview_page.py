"""The overview as HTML: a card per kind, filters, and a table of objects. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from quintet.dashboard.markup import Html, element, join, text_with_code
from quintet.dashboard.query import HEALTH, select
from quintet.inspect.status import Rating, status_remarks
from quintet.inspect.tables import format_age, single_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from quintet.dashboard.query import Query, Selected
    from quintet.inspect.status import ObjectStatus

SIGNS = {Rating.GOOD: "✓", Rating.BAD: "✗", Rating.OPEN: "?", Rating.NEUTRAL: "·"}
WORDS = {Rating.GOOD: "ready", Rating.BAD: "with problems", Rating.OPEN: "unknown"}
_MAX_MESSAGE = 300


def object_url(kind: str, namespace: str, name: str) -> str:
    """Return the URL of an object's page."""
    return "/objects/" + "/".join(quote(part, safe="") for part in (kind, namespace or "-", name))


def render_overview(
    statuses: Collection[ObjectStatus],
    kinds: Sequence[str],
    remarks: Sequence[str],
    query: Query,
    now: datetime,
    *,
    loading: bool = False,
) -> Html:
    """Return the overview; `kinds` are all kinds that can be listed."""
    found = select(statuses, query)
    namespaces = sorted({each.namespace for each in statuses} - {""})
    return join(
        element("h1", "Overview"),
        element("div", [_card(kind, statuses, query) for kind in kinds], class_="cards"),
        [element("p", text_with_code(each), class_="remark") for each in remarks],
        _filters(kinds, namespaces, query),
        element("p", "Loading…" if loading else _count(found, query), class_="count", role="status"),
        _table(found, now) if found.shown else None,
        _pager(found, query),
    )


def _card(kind: str, statuses: Collection[ObjectStatus], query: Query) -> Html:
    ratings = Counter(each.rating for each in statuses if each.kind == kind)
    total = sum(ratings.values())
    parts = [
        (rating, ratings[rating]) for rating in (Rating.GOOD, Rating.OPEN, Rating.BAD) if ratings[rating]
    ]
    words = ", ".join(f"{count} {WORDS[rating]}" for rating, count in parts) or "none"
    chosen = query.kind == kind
    return element(
        "a",
        element("strong", kind),
        element("span", str(total), class_="total"),
        _bar(parts, total),
        element("span", words, class_="words"),
        class_="card chosen" if chosen else "card",
        href=query.url(kind="" if chosen else kind),
        aria_current="true" if chosen else None,
        id=f"card-{kind}",
    )


def _bar(parts: Sequence[tuple[Rating, int]], total: int) -> Html:
    rects, left = [], 0.0
    for rating, count in parts:
        width = 100 * count / total
        rects.append(
            element("rect", x=f"{left:.2f}", width=f"{width:.2f}", height="4", class_=f"fill-{_css(rating)}")
        )
        left += width
    return element(
        "svg", rects, class_="bar", viewBox="0 0 100 4", preserveAspectRatio="none", aria_hidden="true"
    )


def _filters(kinds: Sequence[str], namespaces: Sequence[str], query: Query) -> Html:
    return element(
        "form",
        _choice("Kind", "kind", kinds, query.kind),
        _choice("Namespace", "namespace", namespaces, query.namespace),
        _choice("Health", "health", tuple(HEALTH), query.health),
        element(
            "label",
            "Search ",
            element(
                "input", type="search", name="text", value=query.text, placeholder="name, reason, message"
            ),
        ),
        element("button", "Filter"),
        element("a", "Clear", href="/") if query.url() != "/" else None,
        class_="filters",
        method="get",
        action="/",
        role="search",
    )


def _choice(label: str, name: str, values: Sequence[str], chosen: str) -> Html:
    shown = [*values, *([chosen] if chosen and chosen not in values else [])]
    options = [element("option", each, value=each, selected=each == chosen) for each in shown]
    return element(
        "label", f"{label} ", element("select", element("option", "all", value=""), options, name=name)
    )


def _count(found: Selected, query: Query) -> str:
    if not found.total:
        return "No objects match the filters." if query.url() != "/" else "There are no objects."
    objects = "1 object" if found.total == 1 else f"{found.total:,} objects"
    return f"{objects}, page {found.page} of {found.pages}" if found.pages > 1 else objects


def _table(found: Selected, now: datetime) -> Html:
    heads = ("Health", "Kind", "Namespace", "Name", "Reason", "Age", "Message")
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", [element("th", each, scope="col") for each in heads])),
            element("tbody", [_row(each, now) for each in found.shown]),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Objects",
    )


def _row(each: ObjectStatus, now: datetime) -> Html:
    message = "; ".join((*status_remarks(each), single_line(each.message)))
    short = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]}…"
    url = object_url(each.kind, each.namespace, each.name)
    return element(
        "tr",
        element("td", rating_badge(each.rating, each.verdict)),
        element("td", each.kind),
        element("td", each.namespace),
        element("td", element("a", each.name, href=url)),
        element("td", each.reason),
        element("td", age(each.created, now)),
        element("td", element("span", text_with_code(short), title=message), class_="message short"),
        id=f"row-{each.kind}-{each.namespace}-{each.name}",
    )


def rating_badge(rating: Rating, words: str) -> Html:
    """Return a sign and words: the colour carries no information of its own."""
    return element(
        "span",
        element("span", SIGNS[rating], aria_hidden="true"),
        f" {words}",
        class_=f"badge {_css(rating)}",
    )


def age(since: str, now: datetime) -> Html:
    """Return an age, with the exact time for the pointer and for assistive technology."""
    return element("time", format_age(since, now), datetime=since, title=since)


def _css(rating: Rating) -> str:
    return rating.name.lower()


def _pager(found: Selected, query: Query) -> Html | None:
    if found.pages == 1:
        return None
    last, following = found.page - 1, found.page + 1
    return element(
        "nav",
        element("a", "← Previous", href=query.url(page=last), rel="prev") if last else None,
        f" Page {found.page} of {found.pages} ",
        element("a", "Next →", href=query.url(page=following), rel="next")
        if following <= found.pages
        else None,
        class_="pager",
        aria_label="Pages",
    )
