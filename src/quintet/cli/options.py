"""Options and arguments that several verbs share, with the names that `kubectl` uses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quintet.cli import completion
from quintet.inspect.session import Target
from quintet.kube.impersonation import ImpersonatedUser

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from quintet.apis.resources import CustomResource
    from quintet.authoring.documents import Document
    from quintet.inspect.kinds import ObjectName

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")
EXIT_CODES = "Exit codes: 0 success, 1 failure, 2 usage error."
WATCH_EXIT_CODES = "Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted."


def with_options(options: Sequence[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    """Return a decorator that adds the options in this order."""

    def add_options(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add_options


manifest_options = with_options(
    [
        click.option(
            "-f",
            "--filename",
            "paths",
            multiple=True,
            required=True,
            metavar="FILE|FOLDER|-",
            help="The manifests; may be given several times. - is standard input.",
        ),
        click.option("-R", "--recursive", is_flag=True, help="Also read the subdirectories of a directory."),
    ]
)
namespace_default = click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="The namespace of objects whose manifest has none.",
)
_CLUSTER = (
    click.option("--kubeconfig", metavar="PATH", help="Path to the kubeconfig file."),
    click.option("--context", metavar="NAME", help="The context of the kubeconfig to use."),
    click.option("--as", "as_user", metavar="USER", default="", help="The user to impersonate."),
    click.option("--as-group", metavar="GROUP", multiple=True, help="A group to impersonate; repeatable."),
    click.option("--as-uid", metavar="UID", default="", help="The UID to impersonate."),
)
_SCOPE = {
    "namespace": click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="Default: the namespace of the context.",
        shell_complete=completion.complete_namespace,
    ),
    "all_namespaces": click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces."),
}
dry_run_option = click.option("--dry-run", is_flag=True, help="Send a server-side dry run; change nothing.")
selector_option = click.option(
    "-l", "--selector", "labels", metavar="SELECTOR", default="", help="Filter by labels: a=b."
)


def object_argument(metavar: str = "KIND NAME", *, required: bool = True) -> Callable[[Command], Command]:
    """Add the argument `typed`: words that name a kind or an object, for `parse_object`."""
    return click.argument(
        "typed", nargs=-1, required=required, metavar=metavar, shell_complete=completion.complete_object
    )


def name_argument(kind: str) -> Callable[[Command], Command]:
    """Add the argument `name`: an object of this kind, as NAME, KIND NAME or KIND/NAME."""

    def parse(ctx: click.Context, param: click.Parameter, typed: tuple[str, ...]) -> str:
        from quintet.inspect import kinds

        try:
            return kinds.parse_name(kind, typed)
        except kinds.UnknownKind as error:
            raise click.UsageError(str(error), ctx) from error

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return completion.complete_name(kind, ctx, incomplete)

    return click.argument(
        "name", nargs=-1, required=True, metavar=kind.upper(), callback=parse, shell_complete=complete
    )


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig --context --as`; the verb gets the parameter `target`."""
    return _with_target(command)


def target_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig --context --as -n`; the verb gets the parameter `target`."""
    return _with_target(command, "namespace")


def target_or_all_namespaces(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--kubeconfig --context --as -n -A`; the verb gets the parameter `target`."""
    return _with_target(command, "namespace", "all_namespaces")


def output_option(*formats: str) -> Callable[[Command], Command]:
    """Add `-o` with these formats; the verb gets the parameter `form`, empty for text."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(formats),
        callback=lambda ctx, option, value: value or "",
        help="The output format; default: text.",
    )


def parse_kind(word: str) -> CustomResource:
    """Return the kind with this name; an unknown name is a usage error."""
    from quintet.inspect import kinds

    try:
        return kinds.find_kind(word)
    except kinds.UnknownKind as error:
        raise click.UsageError(str(error)) from error


def parse_object(typed: tuple[str, ...]) -> ObjectName:
    """Return the kind and name of `KIND NAME` or `KIND/NAME`; anything else is a usage error."""
    from quintet.inspect import kinds

    try:
        return kinds.parse_object(typed)
    except kinds.UnknownKind as error:
        raise click.UsageError(str(error)) from error


def read_manifests(paths: tuple[str, ...], *, recursive: bool) -> Iterator[Document]:
    """Return the objects of all manifests; a file that cannot be read is a usage error."""
    from quintet.authoring import validation

    try:
        yield from validation.read_manifests(paths, recursive=recursive)
    except validation.UnreadableFile as error:
        raise click.UsageError(str(error)) from error


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine. asyncio is imported here, because `--help` does not need it."""
    import asyncio

    return asyncio.run(work)


def _with_target(command: Callable[..., Any], *scope: str) -> Callable[..., Any]:
    @functools.wraps(command)
    def call(
        *arguments: Any,
        kubeconfig: str | None,
        context: str | None,
        as_user: str,
        as_group: tuple[str, ...],
        as_uid: str,
        **others: Any,
    ) -> Any:
        user = ImpersonatedUser(as_user, as_group, as_uid)
        chosen = {name: others.pop(name) for name in scope}
        return command(*arguments, target=Target(kubeconfig, context, user=user, **chosen), **others)

    return with_options((*_CLUSTER, *(_SCOPE[name] for name in scope)))(call)
