"""What goes to the screen: results to standard output, everything else to standard error.

Called by every command. Colour is used on a terminal only, and never says anything alone.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import click


def result(text: str) -> None:
    """Print what was asked for."""
    click.echo(text)


def result_json(value: Any) -> None:
    """Print what was asked for, for a program to read."""
    click.echo(json.dumps(value, indent=2))


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
