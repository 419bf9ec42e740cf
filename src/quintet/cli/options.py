"""Options that several commands share, as one decorator."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    """All of them, in the order in which they are listed."""

    def added(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return added
