"""The command `quintet`: its verbs, and the exit codes of errors.

A verb is imported when it is called, which keeps `quintet --help` fast.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from quintet import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(NamedTuple):
    """A verb: the module that defines it, and the line that describes it in the help."""

    module: str
    summary: str


# Listing the verbs must not import them: `quintet --help` stays fast.
GROUPS = {
    "Get started": {
        "demo": Verb("start.demo", "Install Quintet and run one object of each kind."),
        "up": Verb("start.up", "Start an embedded Kubernetes cluster."),
        "down": Verb("start.down", "Stop an embedded cluster and delete its data."),
        "node": Verb("start.node", "Stop, start, disconnect or connect a node."),
        "build": Verb("start.build", "Build the programs of an embedded cluster."),
        "kubectl": Verb("start.kubectl", "Run kubectl against an embedded cluster."),
        "completion": Verb("start.completion", "Print a shell completion script."),
    },
    "Inspect": {
        "status": Verb("inspect.status", "Show the status of Quintet objects."),
        "tree": Verb("inspect.tree", "Show an object and the objects that it owns."),
        "events": Verb("inspect.events", "Show the Events of objects and their children."),
        "dashboard": Verb("inspect.dashboard", "Serve a live web page with the status of all objects."),
        "trend": Verb("inspect.trend", "Show how the results of a Checkup have changed."),
        "logs": Verb("inspect.logs", "Print the logs of the pods of an object or a controller."),
        "deadletters": Verb(
            "inspect.deadletters", "List, replay and drop events that could not be delivered."
        ),
    },
    "Create and change": {
        "new": Verb("change.new", "Create a starter manifest."),
        "validate": Verb("change.validate", "Validate manifests without a cluster."),
        "preview": Verb("change.preview", "Print the objects that controllers would create."),
        "diff": Verb("change.diff", "Show what applying manifests would change in the cluster."),
        "reconcile": Verb("change.reconcile", "Reconcile an object now."),
        "suspend": Verb("change.suspend", "Suspend the reconciliation of an object."),
        "resume": Verb("change.resume", "Resume the reconciliation of a suspended object."),
        "rerun": Verb("change.rerun", "Run a Checkup again."),
        "undo": Verb("change.undo", "Undo the changes of a CASConfig; the CASConfig stays."),
    },
    "Troubleshoot": {
        "explain": Verb("troubleshoot.explain", "Explain an object's status, or a backend type's options."),
        "why": Verb("troubleshoot.why", "Explain whether an object is a target of a CASConfig."),
        "doctor": Verb("troubleshoot.doctor", "Check the cluster, your permissions and the installation."),
        "publish": Verb("troubleshoot.publish", "Publish a test event and show who gets it."),
        "report": Verb("troubleshoot.report", "Create a support bundle (secrets removed)."),
    },
    "Install": {
        "install": Verb("install.install", "Install Quintet in a cluster."),
        "upgrade": Verb("install.upgrade", "Upgrade Quintet to the version of this command."),
        "uninstall": Verb("install.uninstall", "Remove Quintet; the objects of users stay."),
        "wait": Verb("install.wait", "Wait until all controllers are ready."),
    },
    "Processes": {
        "run": Verb("processes.run", "Run controllers and their webhooks."),
        "operator": Verb("processes.operator", "Run the operator that installs the controllers."),
        "publisher-proxy": Verb(
            "processes.publisher_proxy", "Run the proxy that receives events for an EventingBackend."
        ),
        "dispatcher": Verb("processes.dispatcher", "Run the dispatcher that delivers events to sinks."),
    },
}
VERBS = {name: verb for group in GROUPS.values() for name, verb in group.items()}


class LazyGroup(click.Group):
    """A group that imports a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        module = importlib.import_module(f"quintet.cli.verbs.{verb.module}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in VERBS and not word.startswith("-") and not ctx.resilient_parsing:
            import difflib

            nearest = difflib.get_close_matches(word, VERBS, n=1)
            all_commands = f"`{ctx.info_name} --help` lists all commands"
            hint = f"did you mean '{nearest[0]}'?" if nearest else all_commands
            raise click.UsageError(f"unknown command '{word}': {hint}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=verb.summary)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, VERBS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), verb.summary) for name, verb in group.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def quintet() -> None:
    """Five Kubernetes operators in one product, with an embedded Kubernetes to run them on."""


def main() -> None:
    """Run the command and exit with its code; an expected error prints no traceback."""
    called = os.path.basename(sys.argv[0])
    # kubectl runs its plugins as `kubectl-quintet`; the help shows what the user typed.
    program = "kubectl quintet" if called.startswith("kubectl-") else "quintet"
    try:
        code = quintet.main(prog_name=program, standalone_mode=False)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        code = 130
    except Exception as error:
        code = _print_error(error)
    sys.exit(code if isinstance(code, int) else 0)


def _print_error(error: Exception) -> int:
    from quintet.cli import output
    from quintet.inspect.error_messages import describe_error
    from quintet.kube.errors import KubeError
    from quintet.local.errors import LocalError

    match error:
        case LocalError():
            output.error(error.message, error.next_step)
        case KubeError():
            output.error(*describe_error(error))
        case OSError(errno=errno.EADDRINUSE):
            output.error(str(error), "stop the process that uses this address, or choose another port")
        case _:
            raise error
    return 1
