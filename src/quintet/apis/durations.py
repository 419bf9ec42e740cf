"""Durations such as `5s`, `1m30s` or `100ms`. Pure."""

import re
from decimal import Decimal
from typing import Any, Final

PATTERN: Final = r"^([0-9]{1,9}(\.[0-9]{1,9})?(h|ms|m|s)){1,4}$"

_PART = re.compile(r"([0-9.]+)(h|ms|m|s)")
_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}


def seconds(written: Any) -> Decimal | None:
    """Return the seconds of a duration; None if it is not a duration."""
    if not isinstance(written, str) or re.fullmatch(PATTERN, written) is None:
        return None
    return sum((Decimal(number) * _SECONDS[unit] for number, unit in _PART.findall(written)), Decimal())
