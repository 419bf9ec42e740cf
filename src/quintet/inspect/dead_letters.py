"""The dead letters of Subscriptions as tables and texts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.inspect.tables import format_age, single_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from quintet.apis.subscription import Subscription
    from quintet.apis.subscription.dead_letters import DeadLetter

_HEADINGS = ("SUBSCRIPTION", "NUMBER", "EVENT", "TYPE", "ATTEMPTS", "AGE", "RESULT")


def dead_letter_rows(subscriptions: Sequence[Subscription], now: datetime) -> list[list[str]]:
    """Return the table of the oldest dead letters of Subscriptions; empty if there are none."""
    rows = [
        [
            subscription.metadata.name,
            str(letter.sequence),
            single_line(letter.id),
            single_line(letter.type),
            str(letter.attempts),
            format_age(letter.time, now),
            single_line(letter.result),
        ]
        for subscription in subscriptions
        for letter in subscription.status.dead_letters.oldest
    ]
    return [list(_HEADINGS), *rows] if rows else []


def more_notes(subscriptions: Sequence[Subscription]) -> list[str]:
    """Return a note for each Subscription that has more dead letters than its status lists."""
    return [
        f"{each.metadata.name} has {more} more"
        for each in subscriptions
        if (more := each.status.dead_letters.count - len(each.status.dead_letters.oldest)) > 0
    ]


def dead_letter_lines(letter: DeadLetter) -> list[str]:
    """Return one dead letter in full."""
    return [
        f"number:    {letter.sequence}",
        f"id:        {single_line(letter.id)}",
        f"source:    {single_line(letter.source)}",
        f"type:      {single_line(letter.type)}",
        f"time:      {letter.time}",
        f"attempts:  {letter.attempts}",
        f"result:    {single_line(letter.result)}",
    ]
