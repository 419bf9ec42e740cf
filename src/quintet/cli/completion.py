"""Shell completion: suggestions for verbs and kinds, without asking a cluster.

kubectl runs the program `kubectl_complete-quintet` to complete `kubectl quintet`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM, VARIABLE = "quintet", "_QUINTET_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
# Tells kubectl not to suggest file names.
_NO_FILES = ":4"


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the kinds that start with the typed text; nothing once a kind is given."""
    from click.shell_completion import CompletionItem

    from quintet.inspect.kinds import all_kinds, kind_names

    if ctx.params.get(param.name or ""):
        return []
    names = (kind_names(kind)[0] for kind in all_kinds())
    return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


def for_kubectl() -> None:
    """Print suggestions in the protocol of kubectl: one per line, with a tab before the description."""
    from click.shell_completion import ShellComplete

    from quintet.cli.main import quintet

    *before, incomplete = sys.argv[1:] or [""]
    # With the variable set, click would run its own completion instead.
    os.environ.pop(VARIABLE, None)
    for item in ShellComplete(quintet, {}, PROGRAM, VARIABLE).get_completions(before, incomplete):
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
