"""The page of one object as HTML: what to do, conditions, tree, Events, logs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.dashboard.charts import render_chart
from quintet.dashboard.markup import Html, element, join, text_with_code
from quintet.dashboard.overview_page import age, object_url, rating_badge
from quintet.inspect import kinds
from quintet.inspect.kinds import is_same_kind
from quintet.inspect.panels.reader import panels_of_tree
from quintet.inspect.relations.tree import node_state
from quintet.inspect.states import ChildState
from quintet.inspect.status import Rating, rate_condition, status_remarks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quintet.apis.meta import Condition
    from quintet.inspect.events import EventSummary
    from quintet.inspect.explanation_reader import ObjectDetails
    from quintet.inspect.panels.panel import Cell, Panel
    from quintet.inspect.relations.owned_objects import TreeNode
    from quintet.inspect.status import ObjectStatus

MAX_EVENTS = 50
MAX_NODES = 500
_MAX_LINE = 2000


def render_object(found: ObjectDetails, now: datetime) -> Html:
    """Return the page of an object."""
    status = found.status
    return join(
        _heading(status),
        element("p", rating_badge(status.rating, f"{status.verdict} ({status.reason})"), class_="verdict"),
        element("p", text_with_code(status.message)) if status.message else None,
        [
            element("p", text_with_code(each), class_="remark")
            for each in (*status_remarks(status), *found.remarks)
        ],
        _section("What to do", "next", _steps(found.explanation.steps)),
        _section("Facts", "facts", _facts(status, now)),
        [_panel(each) for each in panels_of_tree(found.tree)],
        _section("Conditions", "conditions", _conditions(status.conditions, now)),
        _section("Objects", "tree", _tree(found.tree.root)),
        _section("Events", "events", _events(found.events, now)),
        _section("Logs", "logs", _log_links(status)),
    )


def render_gone(kind: str, namespace: str, name: str) -> Html:
    """Return the page of an object that was deleted while it was shown."""
    return join(
        element("h1", f"{kind} {name}"), element("p", f"It was deleted from {namespace or 'the cluster'}.")
    )


def render_logs(status: ObjectStatus, lines: Sequence[str], remarks: Sequence[str]) -> Html:
    """Return the page with the logs of an object."""
    text = "\n".join(each if len(each) <= _MAX_LINE else f"{each[:_MAX_LINE]}…" for each in lines)
    back = element("a", status.typed, href=object_url(status.kind, status.namespace, status.name))
    return join(
        element("h1", "Logs of ", back),
        [element("p", text_with_code(each), class_="remark") for each in remarks],
        element("pre", text, class_="log", tabindex="0") if lines else element("p", "The logs are empty."),
    )


def render_problem(title: str, message: str, next_step: str) -> Html:
    """Return the page of an error: what happened, and what to do."""
    return join(
        element("h1", title),
        element("p", rating_badge(Rating.BAD, message), class_="verdict"),
        element("p", "Next: ", text_with_code(next_step)) if next_step else None,
    )


def _heading(status: ObjectStatus) -> Html:
    where = f"{status.namespace}/" if status.namespace else ""
    return element("h1", element("small", status.kind), " ", element("small", where), status.name)


def _section(title: str, name: str, content: Html | None) -> Html | None:
    if content is None:
        return None
    return element("section", element("h2", title, id=f"h-{name}"), content, aria_labelledby=f"h-{name}")


def _steps(steps: Sequence[str]) -> Html | None:
    return element("ol", [element("li", text_with_code(each)) for each in steps]) if steps else None


def _facts(status: ObjectStatus, now: datetime) -> Html:
    rows = [join(element("dt", name), element("dd", value)) for name, value in status.facts]
    return element("dl", rows, element("dt", "Age"), element("dd", age(status.created, now)))


def _panel(panel: Panel) -> Html | None:
    rows = [tuple(_cell(cell) for cell in row) for row in panel.rows]
    content = join(
        element("div", map(render_chart, panel.charts), class_="charts") if panel.charts else None,
        table(panel.title, panel.columns, rows),
        element("p", f"{panel.remark}.", class_="remark") if panel.remark else None,
    )
    return _section(panel.title, panel.title.lower().replace(" ", "-"), content)


def _cell(cell: Cell) -> Html:
    return rating_badge(cell.rating, cell.word) if isinstance(cell, ChildState) else text_with_code(cell)


def _conditions(conditions: Sequence[Condition], now: datetime) -> Html | None:
    rows = [
        (
            rating_badge(rate_condition(each), each.status),
            each.type,
            each.reason,
            age(each.last_transition_time, now),
            text_with_code(each.message),
        )
        for each in conditions
    ]
    return table("Conditions", ("Status", "Type", "Reason", "Since", "Message"), rows)


def _events(events: Sequence[EventSummary], now: datetime) -> Html | None:
    rows = [
        (
            age(each.last, now),
            f"{each.count}x" if each.count > 1 else "",
            rating_badge(Rating.BAD if each.is_warning else Rating.NEUTRAL, each.type),
            each.reason,
            each.object_name,
            text_with_code(each.note),
        )
        for each in reversed(events[-MAX_EVENTS:])
    ]
    return table("Events", ("Last", "Count", "Type", "Reason", "Object", "Message"), rows)


def table(label: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Html | None:
    """Return a table whose last column is the longest; None without rows."""
    if not rows:
        return None
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", [element("th", each, scope="col") for each in heads])),
            element(
                "tbody",
                [
                    element(
                        "tr", [element("td", c) for c in row[:-1]], element("td", row[-1], class_="message")
                    )
                    for row in rows
                ],
            ),
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=label,
    )


def _tree(root: TreeNode) -> Html | None:
    """Return the tree as nested lists, up to MAX_NODES objects."""
    if not root.children:
        return None
    left = [MAX_NODES]
    shown = element("ul", _node(root, left), class_="tree")
    hidden = sum(1 for _ in root.walk()) - MAX_NODES
    return join(
        shown, element("p", f"… and {hidden:,} more objects", class_="remark") if hidden > 0 else None
    )


def _node(node: TreeNode, left: list[int]) -> Html | None:
    if not left[0]:
        return None
    left[0] -= 1
    state = node_state(node)
    ours = any(is_same_kind(kind.resource, node.resource) for kind in kinds.all_kinds())
    url = object_url(node.resource.kind, node.meta.namespace, node.meta.name)
    children = [_node(each, left) for each in node.children]
    return element(
        "li",
        element("span", node.resource.kind, class_="kind"),
        " ",
        element("a", node.meta.name, href=url) if ours and not node.error else node.meta.name,
        f" ({node.relation})" if node.relation else None,
        " ",
        rating_badge(state.rating, state.word) if state.word else None,
        element("span", f" {state.detail}", class_="detail")
        if _is_bad(state.rating) and state.detail
        else None,
        element("ul", children) if any(children) else None,
    )


def _is_bad(rating: Rating) -> bool:
    return rating in (Rating.BAD, Rating.OPEN)


def _log_links(status: ObjectStatus) -> Html:
    url = f"{object_url(status.kind, status.namespace, status.name)}/logs"
    return element("p", element("a", "The last lines of all its containers", href=url))
