"""The verb completion."""

from __future__ import annotations

import click

from quintet.cli import output
from quintet.cli.completion import PROGRAM, SHELLS, VARIABLE


@click.command(
    epilog="Exit codes: 0 success, 2 usage error. "
    "`kubectl quintet` completes without a script while kubectl_complete-quintet is on the PATH."
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a shell completion script for `quintet`.

    \b
    bash: echo 'source <(quintet completion bash)' >> ~/.bashrc
    zsh:  echo 'source <(quintet completion zsh)' >> ~/.zshrc
    fish: quintet completion fish > ~/.config/fish/completions/quintet.fish
    """
    from click.shell_completion import get_completion_class

    from quintet.cli.main import quintet

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    # `source()` would also check the version of bash here, but the script may be for another machine.
    completer = completion_class(quintet, {}, PROGRAM, VARIABLE)
    output.result(completer.source_template % completer.source_vars())
