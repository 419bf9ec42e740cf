"""Every interleaving of two replicas with up to three slow requests: never do both hold the Lease.

The real `Leader` runs on a small scheduler instead of an event loop: its clock is simulated, and 100,000 runs
take minutes. A request is slow on its way to the server, or its response is; a client that has a timeout stops
waiting, but the server may still carry out the request later.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from kit.leases import KEY, LeaseServer
from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.kube.errors import KubeError, Unreachable
from quintet.runtime import leader as module
from quintet.runtime.leader import Leader, Lease, Terms


class Delay(NamedTuple):
    """Seconds of a request to the server, and of its response."""

    there: float = 0.0
    back: float = 0.0


QUICK = Delay()
FAULTS = (Delay(there=13.0), Delay(back=13.0), Delay(there=4.0), Delay(back=4.0), Delay(there=math.inf))
"""Longer than the renew deadline, shorter than a timeout; the last: the replica is cut off from then on."""
REQUESTS = 10
"""Faults hit one of the first requests of each replica: about 20 s of renewals."""
END = 60.0
TIMEOUTS = {"with timeout": Terms().timeout, "without timeout": math.inf}
"""A response that a process reads only after it was frozen counts as one without timeout."""


class _Wait(NamedTuple):
    seconds: float

    def __await__(self) -> Generator[float, None, None]:
        yield self.seconds


@dataclass
class Scheduler:
    """A simulated clock that runs coroutines and callbacks in the order of their times."""

    elapsed: float = 0.0
    events: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    async def sleep(self, seconds: float) -> None:
        await _Wait(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> None:
        if seconds < math.inf:
            heapq.heappush(self.events, (self.elapsed + seconds, next(self.numbers), callback))

    def start(self, work: Coroutine[float, None, None]) -> None:
        self.call_later(0.0, lambda: self._resume(work))

    def _resume(self, work: Coroutine[float, None, None]) -> None:
        self.call_later(work.send(None), lambda: self._resume(work))

    def run_next(self) -> bool:
        """Run the next event; return False at the end of the time."""
        if not self.events or self.events[0][0] > END:
            return False
        self.elapsed, _, callback = heapq.heappop(self.events)
        callback()
        return True


@dataclass
class SlowClient:
    """The client of one replica: the requests with these numbers are slow."""

    clock: Scheduler
    server: LeaseServer
    delays: Mapping[int, Delay]
    timeout: float
    sent: int = 0
    is_cut_off: bool = False

    async def get(self, resource: Resource, key: ObjectKey, kind: type[Lease]) -> Lease:
        return await self._send(self.server.read)

    async def create(
        self, resource: Resource, body: JsonObject, kind: type[Lease], *, namespace: str
    ) -> Lease:
        return await self._send(lambda: self.server.write(body, create=True))

    async def replace(self, resource: Resource, key: ObjectKey, body: JsonObject, kind: type[Lease]) -> Lease:
        return await self._send(lambda: self.server.write(body, create=False))

    async def _send(self, act: Callable[[], Lease]) -> Lease:
        delay = self.delays.get(self.sent, QUICK)
        self.sent += 1
        self.is_cut_off |= delay.there == math.inf
        there = math.inf if self.is_cut_off else delay.there
        responses: list[Lease | KubeError] = []

        def handle() -> None:
            try:
                responses.append(act())
            except KubeError as error:
                responses.append(error)

        self.clock.call_later(there, handle)
        await self.clock.sleep(min(there + delay.back, self.timeout))
        if there + delay.back > self.timeout:
            raise Unreachable("no response in time")
        (response,) = responses
        if isinstance(response, KubeError):
            raise response
        return response


async def campaign(leader: Leader) -> None:
    while True:
        await leader.acquire()
        await leader.keep()


def simulate(delays: tuple[Mapping[int, Delay], ...], timeout: float) -> list[int]:
    """Return the replicas that led, in their order; fail if two hold the Lease at once."""
    clock, server = Scheduler(), LeaseServer()
    leaders = []
    for number, each in enumerate(delays):
        client: Any = SlowClient(clock, server, each, timeout)
        leaders.append(Leader(client, KEY, f"replica-{number}", clock, Terms()))
        clock.start(campaign(leaders[-1]))
    led: list[int] = []
    # Only an event can make a replica a holder, so it suffices to look after each.
    while clock.run_next():
        holders = [number for number, each in enumerate(leaders) if each.holds()]
        assert len(holders) < 2, f"both replicas hold the Lease at {clock.elapsed} s: {delays}"
        if holders and led[-1:] != holders:
            led += holders
    return led


def interleavings() -> Iterator[tuple[dict[int, Delay], dict[int, Delay]]]:
    """Return every choice of at most three slow requests among the first ones of both replicas."""
    places = [(replica, number) for replica in range(2) for number in range(REQUESTS)]
    for faults in range(4):
        for chosen in itertools.combinations(places, faults):
            for delays in itertools.product(FAULTS, repeat=faults):
                found: tuple[dict[int, Delay], dict[int, Delay]] = ({}, {})
                for (replica, number), delay in zip(chosen, delays, strict=True):
                    found[replica][number] = delay
                yield found


@pytest.fixture(autouse=True)
def _no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.log, "disabled", True)


@pytest.mark.parametrize("timeout", TIMEOUTS.values(), ids=TIMEOUTS.keys())
@pytest.mark.parametrize(
    "step", [pytest.param(1, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3600)]), 97]
)
def test_never_two_holders_in_any_interleaving_of_slow_requests(step, timeout):
    """Without the marker `exhaustive`, every 97th interleaving."""
    runs = taken_over = without_leader = 0
    for delays in itertools.islice(interleavings(), 0, None, step):
        led = simulate(delays, timeout)
        runs += 1
        taken_over += len(led) > 1
        without_leader += not led
    assert runs * step >= 100_000
    # Otherwise the runs would show nothing.
    assert taken_over > runs / 10, f"leadership changed in {taken_over} of {runs} runs only"
    assert without_leader < runs / 10, f"nobody led in {without_leader} of {runs} runs"


def test_read_of_13_seconds_while_the_leader_is_cut_off_gives_no_second_holder():
    """The standby reads a renewal that is 13 s old, and the leader's last one was just before the response."""
    for cut_off in range(2, REQUESTS):
        for delay in (Delay(there=13.0), Delay(back=13.0), Delay(6.5, 6.5)):
            for read in range(REQUESTS):
                led = simulate(({cut_off: FAULTS[-1]}, {read: delay}), math.inf)
                assert led == [0, 1], (cut_off, delay, read)
