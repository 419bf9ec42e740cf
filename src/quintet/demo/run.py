"""Runs the samples of the demo concurrently and reports their progress.

A sample that fails does not stop the others.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quintet.demo.report import Row, render_block
from quintet.demo.samples import Sample, SampleRun
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from quintet.clock import Clock
    from quintet.local.kubectl import Kubectl


class Progress:
    """Reports progress, prefixed with the seconds since the start."""

    def __init__(self, clock: Clock, progress: Callable[[str], None], result: Callable[[str], None]) -> None:
        self._clock = clock
        self._progress = progress
        self.result = result
        self._start = clock.monotonic()
        self._last = ""

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock.monotonic() - self._start

    def report(self, text: str) -> None:
        """Report a text, unless it repeats the last one."""
        if text != self._last:
            self._progress(f"{self.seconds():4.0f} s  {text}")
            self._last = text

    def about(self, subject: str) -> Callable[[str], None]:
        """Return a function that reports texts about a subject."""
        return lambda text: self.report(f"{subject}: {text}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that the demo cleans up."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, lambda *_: signal.raise_signal(signal.SIGINT)) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class DemoFailed(LocalError):
    """Some samples failed."""


async def run_samples(
    samples: Iterable[Sample], kubectl: Kubectl, progress: Progress, *, pods: bool
) -> list[Row]:
    """Run all samples and return their rows, in the same order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_run_sample(each, kubectl, progress, pods=pods)) for each in samples]
    return [task.result() for task in tasks]


async def _run_sample(sample: Sample, kubectl: Kubectl, progress: Progress, *, pods: bool) -> Row:
    start = progress.seconds()
    run = SampleRun(kubectl, progress.about(sample.kind))
    try:
        seen = await (sample.run_with_pods if pods else sample.run_without_pods)(run)
    except LocalError as error:
        progress.report(f"{sample.kind}: {error.message}")
        return Row(
            sample.kind, sample.name, error.message, progress.seconds() - start, next_step=error.next_step
        )
    progress.result(render_block(f"{sample.kind} {sample.name}: {sample.about}", "\n".join(run.output)))
    return Row(sample.kind, sample.name, seen, progress.seconds() - start)


def raise_failures(rows: Iterable[Row]) -> None:
    """Raise an error if a sample failed."""
    failed = [row for row in rows if row.failed]
    if failed:
        causes = "; ".join(f"{row.kind} {row.name}: {row.seen}" for row in failed)
        raise DemoFailed(f"the demo failed: {causes}", failed[0].next_step)
