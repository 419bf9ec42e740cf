"""Output: results to standard output, everything else to standard error.

Colour is used only on a terminal and never carries information of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

import click


def result(text: str) -> None:
    """Print a result."""
    click.echo(text)


def result_json(value: Any) -> None:
    """Print a result as JSON."""
    click.echo(json.dumps(value, indent=2))


def result_yaml(value: Any) -> None:
    """Print a result as YAML."""
    import yaml

    click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def result_as(form: str, value: Any) -> None:
    """Print a result in the format of `-o`: json or yaml."""
    if form == "json":
        result_json(value)
    else:
        result_yaml(value)


def style(text: str, colour: str) -> str:
    """Return the text in a colour if standard output is a terminal."""
    on = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, fg=colour) if on else text


def width() -> int | None:
    """Return the width of the terminal; None if standard output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def can_print(text: str) -> bool:
    """Return whether the encoding of standard output has these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def is_terminal() -> bool:
    """Return whether standard output is a terminal, where lines can be redrawn."""
    return sys.stdout.isatty()


def is_terminal_with(text: str) -> bool:
    """Return whether standard output is a terminal that can print these characters."""
    return can_print(text) and sys.stdout.isatty()


class Screen:
    """Shows a text that changes: redrawn in place on a terminal, elsewhere printed again."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._height = 0

    def show(self, text: list[str]) -> None:
        """Show these lines in place of those before; the same lines are not printed again."""
        if text == self._text:
            return
        lines = self._text = text
        if sys.stdout.isatty():
            size = shutil.get_terminal_size()
            lines = [_crop(line, size.columns) for line in text][: size.lines - 1]
            # Up to the first line of before, then clear everything below the cursor.
            click.echo((f"\x1b[{self._height}F" if self._height else "") + "\x1b[J", nl=False)
        elif self._height:
            click.echo()
        click.echo("\n".join(lines))
        self._height = len(lines)


def _crop(line: str, width: int) -> str:
    """Return the line without what exceeds the width: a wrapped line could not be redrawn in place."""
    plain = click.unstyle(line)
    return line if len(plain) <= width else plain[: width - 1] + "…"


def progress(text: str) -> None:
    """Print a progress message to standard error."""
    click.secho(text, err=True, dim=True, color=_colour())


def error(message: str, next_step: str) -> None:
    """Print an error and the next step to standard error."""
    click.secho("error: ", err=True, fg="red", bold=True, nl=False, color=_colour())
    click.echo(message, err=True)
    click.echo(f"  next: {next_step}", err=True)


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
