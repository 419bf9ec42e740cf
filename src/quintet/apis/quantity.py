"""Quantities such as `1Gi`, `500m`, `2e3` or `0.5`, as Kubernetes reads them.

Pure.
"""

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount(quantity: Any) -> Decimal | None:
    """Return a quantity, given as text or number, as a number; None if it is not a quantity."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix in _BINARY:
        return number * Decimal(2 ** _BINARY[suffix])
    if suffix in _DECIMAL:
        return number.scaleb(_DECIMAL[suffix])
    return number.scaleb(int(suffix[1:])) if suffix else number
