"""What goes to the screen: results to standard output, everything else to standard error.

Called by every command. Colour is used on a terminal only, and never says anything alone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

import click


def result(text: str) -> None:
    """Print what was asked for."""
    click.echo(text)


def result_json(value: Any) -> None:
    """Print what was asked for, for a program to read."""
    click.echo(json.dumps(value, indent=2))


def result_yaml(value: Any) -> None:
    """Print what was asked for, for a program or a person to read."""
    import yaml

    click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)


def result_as(form: str, value: Any) -> None:
    """Print what was asked for in the form of `-o`, json or yaml."""
    if form == "json":
        result_json(value)
    else:
        result_yaml(value)


def styled(text: str, colour: str) -> str:
    """A text in a colour, where results go to a terminal; it must say the same without."""
    on = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, fg=colour) if on else text


def width() -> int | None:
    """How wide the screen is; None if results go to a file or another program."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def prints(text: str) -> bool:
    """Whether results go to where these characters can be written."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def shows(text: str) -> bool:
    """Whether results go to a terminal that has these characters."""
    return prints(text) and sys.stdout.isatty()


def progress(text: str) -> None:
    """Say what is being done."""
    click.secho(text, err=True, dim=True, color=_colour())


def error(message: str, next_step: str) -> None:
    """Say what went wrong and what to do next."""
    click.secho("error: ", err=True, fg="red", bold=True, nl=False, color=_colour())
    click.echo(message, err=True)
    click.echo(f"  next: {next_step}", err=True)


def _colour() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
