"""Runs the samples of the demo side by side, and says what became of each as it is known.

Called by `stages`. One that fails does not stop the others: all of them are in the table at the end.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quintet.cli import output
from quintet.cli.demo.report import Row, block
from quintet.cli.demo.samples import Sample, Scene
from quintet.local.errors import LocalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from quintet.clock import Clock
    from quintet.local.kubectl import Kubectl


class Teller:
    """Says what is being done, with the seconds since the beginning in front."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begin = clock.monotonic()
        self._last = ""

    def seconds(self) -> float:
        """Since the beginning."""
        return self._clock.monotonic() - self._begin

    def say(self, text: str) -> None:
        """Say it, unless it was the last thing said."""
        if text != self._last:
            output.progress(f"{self.seconds():4.0f} s  {text}")
            self._last = text

    def about(self, subject: str) -> Callable[[str], None]:
        """Say it of something."""
        return lambda text: self.say(f"{subject}: {text}")


@contextmanager
def interruptible() -> Iterator[None]:
    """Take a polite request to end, or a terminal that was closed, like Ctrl-C: then things are put away."""
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.signal(each, lambda *_: signal.raise_signal(signal.SIGINT)) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Failures(LocalError):
    """What did not work, once all the rest was shown."""


async def play(samples: Iterable[Sample], kubectl: Kubectl, teller: Teller, *, pods: bool) -> list[Row]:
    """Show every sample; the rows are in the order of the samples."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_show(each, kubectl, teller, pods=pods)) for each in samples]
    return [task.result() for task in tasks]


async def _show(sample: Sample, kubectl: Kubectl, teller: Teller, *, pods: bool) -> Row:
    begin = teller.seconds()
    scene = Scene(kubectl, teller.about(sample.kind))
    try:
        seen = await (sample.prove if pods else sample.unfold)(scene)
    except LocalError as error:
        teller.say(f"{sample.kind}: {error.message}")
        return Row(
            sample.kind, sample.name, error.message, teller.seconds() - begin, next_step=error.next_step
        )
    output.result(block(f"{sample.kind} {sample.name}: {sample.about}", "\n".join(scene.shown)))
    return Row(sample.kind, sample.name, seen, teller.seconds() - begin)


def refuse_failures(rows: Iterable[Row]) -> None:
    """End with an error if something did not work."""
    failed = [row for row in rows if row.failed]
    if failed:
        causes = "; ".join(f"{row.kind} {row.name}: {row.seen}" for row in failed)
        raise Failures(f"the demo did not work: {causes}", failed[0].next_step)
