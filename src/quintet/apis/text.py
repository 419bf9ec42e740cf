"""Text for messages and status fields."""

from collections.abc import Iterable


def truncate(text: str, longest: int) -> str:
    """Return the text, cut to `longest` characters; a cut text ends with an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def parse_number(text: str) -> int | None:
    """Return a number of up to nine ASCII digits; None for any other text.

    `str.isdigit` accepts more than `int` does, such as a superscript, and so many digits that `int` raises.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def shorten_list(names: Iterable[str], most: int = 4) -> str:
    """Return the first names and the number of further ones."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
