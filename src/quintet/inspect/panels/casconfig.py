"""The targets of a CASConfig, and the changes that it would make. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.inspect.panels.panel import Panel
from quintet.inspect.relations.tree import rate_target
from quintet.inspect.states import ChildState

if TYPE_CHECKING:
    from quintet.apis.meta import JsonObject


def casconfig_panels(body: JsonObject) -> tuple[Panel, ...]:
    """Return what is not empty of: targets, planned changes."""
    status = body.get("status") or {}
    rows = tuple(
        (
            str(each.get("kind") or ""),
            str(each.get("namespace") or ""),
            str(each.get("name") or ""),
            ChildState(str(each.get("state") or ""), rate_target(each.get("state"))),
            str(each.get("policy") or ""),
            str(each.get("reason") or ""),
            str(each.get("message") or ""),
        )
        for each in status.get("targets") or ()
    )
    changes = tuple((str(each.get("target")), str(each.get("diff"))) for each in status.get("plan") or ())
    hidden = int(status.get("targetsNotListed") or 0)
    panels = (
        Panel(
            "Targets",
            ("Kind", "Namespace", "Name", "State", "Policies", "Reason", "Message"),
            rows,
            remark=f"{hidden} more targets are not listed" if hidden else "",
        ),
        Panel("Changes that it would make", ("Target", "Change"), changes),
    )
    return tuple(each for each in panels if each.rows)
