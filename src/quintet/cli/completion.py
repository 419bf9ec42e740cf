"""Shell completion: suggestions for verbs and kinds, and for names of objects and namespaces in the cluster.

kubectl runs the program `kubectl_complete-quintet` to complete `kubectl quintet`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from quintet.apis.meta import Resource

PROGRAM, VARIABLE = "quintet", "_QUINTET_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
TIMEOUT_VARIABLE, TIMEOUT = "QUINTET_COMPLETION_TIMEOUT", 2.0
"""Seconds that a suggestion waits for the cluster; then there is none."""
# Tells kubectl not to suggest file names.
_NO_FILES = ":4"


def complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the kinds that start with the typed text; nothing once a kind is given."""
    if ctx.params.get(param.name or ""):
        return []
    return _items(_kind_names(), incomplete.lower())


def complete_object(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return kinds, and after a kind, as in `KIND NAME` and `KIND/NAME`, the names of its objects."""
    typed: tuple[str, ...] = ctx.params.get(param.name or "") or ()
    if len(typed) == 1 and "/" not in typed[0]:
        return _items(_object_names(ctx, typed[0]), incomplete)
    if typed:
        return []
    kind, slash, _ = incomplete.partition("/")
    if slash:
        return _items([f"{kind}/{name}" for name in _object_names(ctx, kind)], incomplete)
    return _items(_kind_names(), incomplete.lower())


def complete_name(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the names of the objects of a kind."""
    return _items(_object_names(ctx, kind), incomplete)


def complete_namespace(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the namespaces of the cluster."""
    from quintet.apis.meta import Resource

    namespaces = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
    return _items(_list_names(ctx, namespaces), incomplete)


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


def _items(names: list[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _kind_names() -> list[str]:
    from quintet.inspect.kinds import all_kinds, kind_names

    return [kind_names(kind)[0] for kind in all_kinds()]


def _object_names(ctx: click.Context, kind: str) -> list[str]:
    from quintet.inspect.kinds import UnknownKind, find_kind

    try:
        return _list_names(ctx, find_kind(kind).resource)
    except UnknownKind:
        return []


def _list_names(ctx: click.Context, resource: Resource) -> list[str]:
    """Return the names of all objects of a type, sorted; without an answer in time, none."""
    import asyncio

    from quintet.inspect.names import list_names
    from quintet.inspect.session import Target
    from quintet.kube.errors import KubeError
    from quintet.kube.impersonation import ImpersonatedUser

    typed = ctx.params
    user = ImpersonatedUser(
        typed.get("as_user") or "", typed.get("as_group") or (), typed.get("as_uid") or ""
    )
    target = Target(typed.get("kubeconfig"), typed.get("context"), typed.get("namespace"), user=user)
    # A suggestion must not print an error into the line that the user types.
    with contextlib.suppress(KubeError, OSError, TimeoutError):
        return asyncio.run(asyncio.wait_for(list_names(target, resource), _timeout()))
    return []


def _timeout() -> float:
    """Return how long to wait for the cluster, in seconds."""
    with contextlib.suppress(ValueError):
        return float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT))
    return TIMEOUT
