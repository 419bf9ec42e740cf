"""What a kind's `status` module says, merged with what stood there before. Called by controllers."""

from datetime import datetime

import msgspec

from quintet.apis.meta import Condition, find_condition
from quintet.clock import timestamp


def merged(
    existing: tuple[Condition, ...], new: tuple[Condition, ...], generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The new conditions; each keeps the time of its last transition while its status is the same.

    Conditions of types that `new` does not name belong to others and stay.
    """
    result = []
    for condition in new:
        old = find_condition(existing, condition.type)
        same = old is not None and old.status == condition.status
        since = old.last_transition_time if old is not None and same else timestamp(now)
        result.append(
            msgspec.structs.replace(condition, last_transition_time=since, observed_generation=generation)
        )
    named = {condition.type for condition in new}
    return (*result, *(condition for condition in existing if condition.type not in named))
