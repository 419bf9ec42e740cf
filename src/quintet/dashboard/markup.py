"""HTML from values: whatever is not `Html` already is escaped. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterable


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | Html | None | Iterable["str | Html | None"]
_EMPTY_ELEMENTS = frozenset({"input", "link", "meta"})


def element(tag: str, *content: Content, **attributes: str | bool | None) -> Html:
    """Return an element. In attribute names, `_` means `-`, and a final `_` avoids a keyword of Python.

    Attributes that are None or False are omitted; those that are True have no value.
    """
    shown = "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY_ELEMENTS:
        return Html(f"<{tag}{shown}>")
    return Html(f"<{tag}{shown}>{join(*content)}</{tag}>")


def join(*content: Content) -> Html:
    """Return all content, one after the other."""
    parts: list[str] = []
    for each in content:
        if isinstance(each, Html):
            parts.append(each)
        elif isinstance(each, str):
            parts.append(escape(each))
        elif each is not None:
            parts.append(join(*each))
    return Html("".join(parts))


def escape(text: str) -> Html:
    """Return a text as HTML; characters that would change the direction or hide text are shown as numbers."""
    visible = "".join(
        each if each.isprintable() or each in "\n\t" else f"\\u{ord(each):04x}" for each in text
    )
    return Html(html.escape(visible))


def text_with_code(text: str) -> Html:
    """Return a text in which `backticks` mark commands and fields."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return join([element("code", part) if number % 2 else escape(part) for number, part in enumerate(parts)])
