"""The command `quintet`: which commands there are, and how errors become exit codes.

Called as a console script. Commands are imported when they are called, which keeps
`quintet --help` quick; each lives in a module of its own beside this one.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import TYPE_CHECKING

import click

from quintet import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Name → module, function, and what it does: listing them must not import them.
COMMANDS = {
    "up": ("quintet.cli.cluster", "up", "Start an embedded Kubernetes cluster."),
    "down": ("quintet.cli.cluster", "down", "Stop an embedded cluster and remove everything of it."),
    "build": ("quintet.cli.cluster", "build", "Build what a cluster needs, without starting one."),
    "kubectl": ("quintet.cli.cluster", "kubectl", "Run kubectl on an embedded cluster."),
    "install": ("quintet.cli.install", "install", "Install Quintet in a cluster."),
    "upgrade": ("quintet.cli.install", "upgrade", "Bring an installation to this version."),
    "uninstall": ("quintet.cli.install", "uninstall", "Remove Quintet; what users made stays."),
    "wait": ("quintet.cli.install", "wait", "Wait until every controller serves."),
    "run": ("quintet.cli.run", "run", "Run controllers and their webhooks."),
    "operator": ("quintet.cli.operator", "operator", "Run the operator that installs the controllers."),
    "status": (
        "quintet.cli.status",
        "status",
        "Show how objects stand: all, those of a kind, or one in full.",
    ),
    "tree": ("quintet.cli.tree", "tree", "Show an object and all that belongs to it."),
    "new": ("quintet.cli.new", "new", "Print a manifest of a kind to begin with."),
    "logs": ("quintet.cli.logs", "logs", "Show what the pods of an object, or of a controller, say."),
    "events": ("quintet.cli.events", "events", "Show what happened to objects and what belongs to them."),
    "validate": ("quintet.cli.validate", "validate", "Check manifests without a cluster."),
    "preview": ("quintet.cli.preview", "preview", "Print what controllers would make for manifests."),
    "diff": ("quintet.cli.diff", "diff", "Show what manifests would change in a cluster."),
    "explain": (
        "quintet.cli.explaining",
        "explain",
        "Say why an object is as it is; or what a type of backend can be told.",
    ),
    "reconcile": ("quintet.cli.steering", "reconcile", "Ask the controller to look at an object now."),
    "suspend": ("quintet.cli.steering", "suspend", "Leave an object and its children alone for now."),
    "resume": ("quintet.cli.steering", "resume", "Look after a suspended object again."),
    "rerun": ("quintet.cli.rerun", "rerun", "Run a Checkup again."),
    "undo": ("quintet.cli.undo", "undo", "Take back what a CASConfig has set; the config stays."),
    "why": ("quintet.cli.why", "why", "Say why an object is a target of a CASConfig, or is none."),
    "publisher-proxy": ("quintet.cli.dataplane", "publisher_proxy", "Take events in for an EventingBackend."),
    "dispatcher": ("quintet.cli.dataplane", "dispatcher", "Deliver the events of an EventingBackend."),
    "doctor": ("quintet.cli.doctor", "doctor", "Check a cluster, your rights, and whether Quintet works."),
    "report": ("quintet.cli.report", "report", "Write an archive for somebody who helps."),
    "completion": ("quintet.cli.completion", "completion", "Print a script that makes a shell complete."),
    "demo": ("quintet.cli.demo", "demo", "Install Quintet and show one working object of each kind."),
}


class Lazy(click.Group):
    """A group whose commands are imported at the moment they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, name, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Suggest commands from the table above, and options."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=summary)
            for name, (_, _, summary) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table above."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in COMMANDS.items()])


@click.group(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly, 130 it was interrupted.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def quintet() -> None:
    """Five Kubernetes operators in one product, with an embedded Kubernetes to run them on."""


def main() -> None:
    """Run the command and end with its exit code; an error of the user's shows no traceback."""
    called = os.path.basename(sys.argv[0])
    # As a plugin it is called `kubectl quintet`, and help must say so.
    program = "kubectl quintet" if called.startswith("kubectl-") else "quintet"
    try:
        code = quintet.main(prog_name=program, standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        code = 130
    except Exception as error:
        code = _explained(error)
    sys.exit(code if isinstance(code, int) else 0)


def _explained(error: Exception) -> int:
    from quintet.cli import output
    from quintet.cli.explain import explain
    from quintet.kube.errors import KubeError
    from quintet.local.errors import LocalError

    match error:
        case LocalError():
            output.error(error.message, error.next_step)
        case KubeError():
            output.error(*explain(error))
        case OSError(errno=errno.EADDRINUSE):
            output.error(str(error), "stop what listens there, or choose another port")
        case _:
            raise error
    return 1
