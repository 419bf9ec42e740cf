"""Orders the resourceVersions that one watch receives.

Those of Kubernetes are growing integers. An aggregated API may use any string; then nothing is known but
the order in which a watch received them.
"""

_LONGEST_NUMBER = 20


class Versions:
    """The resourceVersions of one watch as numbers that grow in their order."""

    def __init__(self) -> None:
        self._latest = 0
        self._text = ""
        self._opaque = False

    def number(self, text: str) -> int:
        """Return the number of a version that the watch received just now."""
        self._opaque = self._opaque or not _is_number(text)
        number = self._latest + 1 if self._opaque else int(text)
        if number > self._latest:
            self._latest, self._text = number, text
        return number

    def comparable(self, text: str) -> int | None:
        """Return the number of a version from elsewhere, such as a write; None if its order is not known."""
        return int(text) if not self._opaque and _is_number(text) else None

    def text(self, number: int) -> str:
        """Return the version of a number; empty if it is not known any more."""
        if not self._opaque:
            return str(number)
        return self._text if number == self._latest else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
