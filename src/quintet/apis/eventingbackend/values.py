"""Parses values by their data type and formats them for people. Pure.

`validation` and `effective` share it, because both must parse a value alike.
"""

import json
import re
from decimal import Decimal
from typing import Any, Final

from quintet.apis import durations, quantity
from quintet.apis.eventingbackend.keys import LARGEST_NUMBER, DataType, Key, Value
from quintet.apis.text import truncate

LONGEST_VALUE: Final = 256
NOT_SHOWN: Final = "(not shown)"
QUANTITY_PATTERN: Final = (
    r"^[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"
)
EXAMPLES: Final = {DataType.QUANTITY: "700Mi", DataType.DURATION: "5s"}

# Everything before the last '@', except for a scheme, may be a password.
_LOGIN = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:/*)?.*@", re.DOTALL)


def meaning(data_type: DataType, written: Any) -> Decimal | str | None:
    """Return a number (of bytes or seconds) or a text; None if the value does not have the data type."""
    match data_type:
        case DataType.INT:
            whole = _whole(written)
            return None if whole is None else Decimal(whole)
        case DataType.QUANTITY:
            return _amount(written)
        case DataType.DURATION:
            return durations.seconds(written)
        case DataType.STRING:
            return written if isinstance(written, str) else None


def plain(data_type: DataType, written: Any) -> Value:
    """Return a valid value in the form in which configurations are stored and compared."""
    whole = _whole(written)
    if whole is None:
        return str(written)
    return whole if data_type is DataType.INT else str(whole)


def _whole(written: Any) -> int | None:
    if isinstance(written, bool):
        return None
    if isinstance(written, int):
        return written
    # JSON has no integers: 10.0 is 10, and the API server stores it as such.
    if isinstance(written, float) and written.is_integer() and abs(written) <= LARGEST_NUMBER:
        return int(written)
    return None


def _amount(written: Any) -> Decimal | None:
    if isinstance(written, bool):
        return None
    if isinstance(written, int):
        return Decimal(written)
    text = str(written) if isinstance(written, float) else written
    if not isinstance(text, str) or re.fullmatch(QUANTITY_PATTERN, text) is None:
        return None
    return quantity.amount(text)


def shown(key: Key | None, name: str, value: Any, *, faulty: bool) -> str:
    """Return a value for people. An option that is not in the catalog may still contain a secret."""
    secret = _sounds_secret(name) if key is None else key.sensitive or (key.names_secret and faulty)
    return NOT_SHOWN if secret else text_of(value)


def text_of(value: Any) -> str:
    """Return any value as storable text: bounded, valid Unicode, without passwords in URLs."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, default=str)
        except (ValueError, RecursionError):  # a number of thousands of digits, or nested without end
            return "(too large to be shown)"
    text = _LOGIN.sub(r"\1***@", text).encode("utf-8", "replace").decode("utf-8")
    return truncate(text, LONGEST_VALUE)


def _sounds_secret(name: str) -> bool:
    lower = name.lower()
    return any(word in lower for word in ("secret", "password", "passwd", "token", "credential", "key"))
