"""Undoes the changes of a CASConfig, which itself stays.

It sets `spec.mode: Preview`: the controller then undoes its changes and only reports what it would change.
Nothing is changed again until somebody sets `mode: Apply`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.actions.annotate import MANAGER
from quintet.actions.wait import wait_for
from quintet.apis.casconfig import CASCONFIGS, CASConfig, Mode
from quintet.apis.meta import find_condition
from quintet.apis.steering import suspended
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from quintet.apis.meta import ObjectKey
    from quintet.kube.client import Client

APPLY = '{"spec":{"mode":"Apply"}}'


async def undo_casconfig(
    client: Client, key: ObjectKey, report: Callable[[str], None], *, timeout: float, dry_run: bool
) -> str:
    """Undo the changes of a CASConfig and return a message; with a timeout, wait until all are undone."""
    name = key.name
    found = await client.get(CASCONFIGS, key, CASConfig)
    if suspended(found.metadata):
        step = f"run `quintet resume casconfig {name}` first: only the controller can undo its changes"
        raise LocalError(f"CASConfig {key} is suspended", step)
    body = {"spec": {"mode": Mode.PREVIEW}}
    await client.with_manager(MANAGER).patch(CASCONFIGS, key, body, CASConfig, dry_run=dry_run)
    if dry_run:
        return "\n".join(_list_targets(name, found))
    report(f"to apply it again: kubectl patch casc {name} --type=merge -p '{APPLY}'")
    if timeout:
        await wait_for(client, CASCONFIGS, key, CASConfig, _report_until_undone(report), timeout)
    return f"casconfig/{name} {'is' if timeout else 'is being'} undone: spec.mode is Preview"


def is_undone(config: CASConfig) -> bool | None:
    """Return True once no target holds changes of the CASConfig; None before, or while that is unknown."""
    status = config.status
    seen = status.observed_generation == config.metadata.generation
    # The controller records there what it may change before it does, until it is undone.
    clean = not (status.reach or status.unfinished)
    return True if config.spec.mode is Mode.PREVIEW and seen and clean else None


def _list_targets(name: str, config: CASConfig) -> Iterator[str]:
    held, more = [each for each in config.status.targets if each.paths], config.status.targets_not_listed
    count = len(held) + more
    yield f"casconfig/{name} would be undone on {count} object{'' if count == 1 else 's'} (dry run)"
    for each in held:
        yield f"  {each.kind} {each.namespace}/{each.name}"
    if more:
        yield f"  and {more} more"


def _report_until_undone(report: Callable[[str], None]) -> Callable[[CASConfig], bool | None]:
    """Return `is_undone`, which also reports each new message of the condition Ready."""
    reported = ""

    def check(config: CASConfig) -> bool | None:
        nonlocal reported
        ready = find_condition(config.status.conditions, "Ready")
        current = ready is not None and ready.observed_generation == config.metadata.generation
        if ready is not None and current and ready.status != "True" and ready.message != reported:
            reported = ready.message
            report(f"waiting: {ready.reason}: {ready.message}")
        return is_undone(config)

    return check
