"""Options that several commands share, as one decorator."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    """All of them, in the order in which they are listed."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added


manifests = with_options(
    [
        click.option(
            "-f",
            "--filename",
            "paths",
            multiple=True,
            required=True,
            metavar="FILE|FOLDER|-",
            help="What to look at; may be given several times. - is standard input.",
        ),
        click.option("-R", "--recursive", is_flag=True, help="Look into the folders of a folder too."),
    ]
)
"""Which manifests a command looks at."""
