"""Merges the conditions that a controller has computed with those that are stored."""

from datetime import datetime

import msgspec

from quintet.apis.meta import Condition, find_condition
from quintet.clock import timestamp


def merge(
    existing: tuple[Condition, ...], new: tuple[Condition, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the new conditions; each keeps its last transition time while its status is the same.

    A condition that `new` takes over from `existing` stays as it is. Conditions of types that `new` does
    not name belong to others and stay too.
    """
    result = []
    for condition in new:
        old = find_condition(existing, condition.type)
        if old is condition:
            result.append(old)
            continue
        same = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and same else timestamp(now)
        result.append(
            msgspec.structs.replace(condition, last_transition_time=since, observed_generation=generation)
        )
    named = {condition.type for condition in new}
    return (*result, *(condition for condition in existing if condition.type not in named))
