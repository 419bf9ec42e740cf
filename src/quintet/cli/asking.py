"""Which cluster, which namespace, which objects, in which form: the options that commands have in common.

Called by every command that speaks to a cluster as the person who calls it. The decorators give a
command its options under the names of `kubectl`; `connected` gives it a client with that person's rights.

    @asking.where                    # --kubeconfig --context -n: the command gets `where`
    @asking.forms("json", "yaml")    # -o: the command gets `form`, "" for text
    def command(where: asking.Where, form: str) -> None:
        async with asking.connected(where) as asked:
            await asked.client.get(kind.resource, asked.key(kind.resource, name), JsonObject)
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from quintet.apis.meta import ObjectKey, Resource
    from quintet.kube.client import Client

Command = Callable[..., Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Where:
    """What was typed about the cluster and the namespace."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A connected client, and where to look."""

    client: Client
    namespace: str
    """The one that was typed, else that of the context."""
    everywhere: bool = False

    @property
    def scope(self) -> str:
        """The namespace of a list: none, if all were asked for."""
        return "" if self.everywhere else self.namespace

    def key(self, resource: Resource, name: str) -> ObjectKey:
        """Where an object of that name is."""
        from quintet.apis.meta import ObjectKey

        return ObjectKey(self.namespace if resource.namespaced else "", name)


_CLUSTER = (
    click.option("--kubeconfig", metavar="PATH", help="The kubeconfig to use instead of the usual one."),
    click.option("--context", metavar="NAME", help="The context to use instead of the current one."),
    click.option("-n", "--namespace", metavar="NAME", help="Default: that of the context."),
)
_EVERYWHERE = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In all namespaces.")


def where(command: Command) -> Command:
    """`--kubeconfig --context -n` → the parameter `where`."""
    return _with_where(command, _CLUSTER)


def where_or_everywhere(command: Command) -> Command:
    """`--kubeconfig --context -n -A` → the parameter `where`."""
    return _with_where(command, (*_CLUSTER, _EVERYWHERE))


def labels(command: Command) -> Command:
    """`-l` → the parameter `labels`: a label selector as of `kubectl`, empty if there is none."""
    option = click.option(
        "-l", "--selector", "labels", metavar="SELECTOR", default="", help="By labels: a=b."
    )
    return option(command)


def forms(*names: str) -> Callable[[Command], Command]:
    """`-o` with these forms → the parameter `form`, which is empty for text."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(names),
        callback=lambda ctx, option, value: value or "",
        help="Another form than text.",
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Do it to its end. What that takes is imported here: whoever asks for help need not wait."""
    import asyncio

    return asyncio.run(work)


@contextlib.asynccontextmanager
async def connected(where: Where) -> AsyncIterator[Asked]:
    """A client with the rights of whoever calls, and the namespace that is meant."""
    from quintet.kube import config
    from quintet.kube.client import Client
    from quintet.kube.transport import Transport

    found = config.load(where.kubeconfig, where.context)
    async with Transport(found) as transport:
        yield Asked(Client(transport), where.namespace or found.namespace, where.everywhere)


def _with_where(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    @functools.wraps(command)
    def gathered(
        *arguments: Any,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        everywhere: bool = False,
        **others: Any,
    ) -> Any:
        return command(*arguments, where=Where(kubeconfig, context, namespace, everywhere), **others)

    result: Command = gathered
    for option in reversed(options):
        result = option(result)
    return result
