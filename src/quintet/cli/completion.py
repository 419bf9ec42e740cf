"""The command completion, and what shells are told when somebody presses the tab key.

Called by `main`, and by kubectl, which looks for a program `kubectl_complete-quintet` beside the plugin.
Suggestions come from tables, without a cluster: pressing a key must not take long, nor fail.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from quintet.cli import output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

PROGRAM, VARIABLE = "quintet", "_QUINTET_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
# In the protocol of kubectl: what was printed is all that there is, so no names of files.
_NO_FILES = ":4"


@click.command(
    epilog="Exit codes: 0 it was printed, 2 it was called wrongly. "
    "`kubectl quintet` completes by itself while kubectl_complete-quintet is on the PATH."
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete `quintet`.

    \b
    bash: echo 'source <(quintet completion bash)' >> ~/.bashrc
    zsh:  echo 'source <(quintet completion zsh)' >> ~/.zshrc
    fish: quintet completion fish > ~/.config/fish/completions/quintet.fish
    """
    from click.shell_completion import get_completion_class

    from quintet.cli.main import quintet

    kind = get_completion_class(shell)
    assert kind is not None
    # What `source` does besides is to ask a bash for its version, which need not be this machine's.
    made = kind(quintet, {}, PROGRAM, VARIABLE)
    output.result(made.source_template % made.source_vars())


def kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The kinds whose names begin so; nothing for what comes after the kind."""
    from click.shell_completion import CompletionItem

    from quintet.cli.kinds import known, words

    if ctx.params.get(param.name or ""):
        return []
    names = (words(kind)[0] for kind in known())
    return [CompletionItem(name) for name in names if name.startswith(incomplete.lower())]


def for_kubectl() -> None:
    """Answer kubectl: one suggestion in a line, its description behind a tab, and what to do with them."""
    from click.shell_completion import ShellComplete

    from quintet.cli.main import quintet

    *before, incomplete = sys.argv[1:] or [""]
    # What a suggestion needs must not be taken for a command that is carried out.
    os.environ.pop(VARIABLE, None)
    for item in ShellComplete(quintet, {}, PROGRAM, VARIABLE).get_completions(before, incomplete):
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)
