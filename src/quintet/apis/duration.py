"""Durations such as `90s`, `10m`, `1h30m` or `7d`. Pure."""

import re
from typing import Any, Final

PATTERN: Final = "^([0-9]{1,5}d)?([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$"
_SECONDS: Final = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


def parse_seconds(duration: Any) -> float | None:
    """Return a duration in seconds; None if it is not a duration."""
    if not isinstance(duration, str) or not duration or re.fullmatch(PATTERN, duration) is None:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([dhms])", duration))
