"""Starts another run of a Checkup and waits for its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.actions.annotate import annotate
from quintet.actions.wait import wait_for
from quintet.apis.checkup import CHECKUPS, Checkup, Phase, Verdict
from quintet.apis.checkup.types import CANCEL, RERUN
from quintet.apis.steering import suspended
from quintet.clock import SystemClock, micro_timestamp
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quintet.apis.meta import ObjectKey, ObjectMeta
    from quintet.kube.client import Client


async def rerun_checkup(
    client: Client, key: ObjectKey, report: Callable[[str], None], *, timeout: float, dry_run: bool
) -> tuple[bool, str] | None:
    """Request another run; with a timeout, wait and return whether it passed and a text about its result."""
    value = micro_timestamp(SystemClock().now())
    found = await client.get(CHECKUPS, key, Checkup)
    if (refusal := find_obstacle(found.metadata)) is not None:
        raise LocalError(f"Checkup {key} {refusal[0]}", refusal[1])
    await annotate(client, CHECKUPS, key, {RERUN: value}, dry_run=dry_run)
    rests = found.status.verdict is not None or found.status.phase is Phase.SCHEDULED
    when = "" if rests else ", after the current run has ended"
    report(f"checkup/{key.name} runs again{' (dry run)' if dry_run else when}")
    if not timeout or dry_run:
        return None
    return await wait_for(client, CHECKUPS, key, Checkup, lambda now: read_result(now, value), timeout)


def find_obstacle(metadata: ObjectMeta) -> tuple[str, str] | None:
    """Return why no run can start and what to do about it; None if a run can start."""
    if metadata.deleting:
        return "is being deleted", "wait until it is deleted, and create it again"
    if suspended(metadata):
        return "is suspended", f"run `quintet resume checkup {metadata.name}` first"
    if metadata.annotations.get(CANCEL, "").lower() == "true":
        return (
            f"is cancelled by its annotation {CANCEL}",
            f"run `kubectl annotate ckup {metadata.name} {CANCEL}-` first",
        )
    return None


def read_result(checkup: Checkup, value: str) -> tuple[bool, str] | None:
    """Return whether the requested run passed and a text about its result; None until it has ended."""
    status = checkup.status
    never_ran = status.verdict is Verdict.INVALID and status.start_time is None
    if status.verdict is None or (status.observed_rerun != value and not never_ran):
        return None
    run = f"run {status.run}" if status.run else "no run"
    text = f"checkup/{checkup.metadata.name} {status.verdict}: {run}: {status.reason}: {status.message}"
    return status.verdict in (Verdict.PASSED, Verdict.FLAKY), text
