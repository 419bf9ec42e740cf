"""Tests of leader election with delayed requests, in virtual time: one leader at most, and one soon."""

import asyncio
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from kit.clock import VirtualClock
from kit.leases import KEY, LeaseServer
from quintet.apis.meta import ObjectKey, Resource
from quintet.kube.errors import Unreachable
from quintet.runtime.leader import Leader, Lease, Terms


@dataclass
class SlowClient:
    """A client for `Leader` whose requests are delayed both ways, or whose responses are lost."""

    server: LeaseServer
    clock: VirtualClock
    delays: Iterator[tuple[float, float, bool]]

    async def get(self, resource: Resource, key: ObjectKey, kind: type[Lease]) -> Lease:
        return await self._delayed(self.server.read)

    async def create(
        self, resource: Resource, body: dict[str, Any], kind: type[Lease], *, namespace: str
    ) -> Lease:
        return await self._delayed(lambda: self.server.write(body, create=True))

    async def replace(
        self, resource: Resource, key: ObjectKey, body: dict[str, Any], kind: type[Lease]
    ) -> Lease:
        return await self._delayed(lambda: self.server.write(body, create=False))

    async def _delayed(self, act: Any) -> Lease:
        there, back, lost = next(self.delays)
        if there:
            await self.clock.sleep(there)
        try:
            answer: Lease = act()
        finally:
            if back:
                await self.clock.sleep(back)
        if lost:
            raise Unreachable("the answer was lost")
        return answer


def a_leader(
    server: LeaseServer,
    clock: VirtualClock,
    name: str,
    delays: Iterator[tuple[float, float, bool]],
    terms: Terms | None = None,
) -> Leader:
    client: Any = SlowClient(server, clock, delays)
    return Leader(client, KEY, name, clock, terms)


async def campaign(leader: Leader) -> None:
    while True:
        await leader.acquire()
        await leader.keep()


SECONDS = st.sampled_from([0.0, 0.0, 0.0, 1.0, 9.0, 14.0])
DELAYS = st.tuples(SECONDS, SECONDS, st.sampled_from([False, False, False, True]))
QUICK, SLOW_READ, HANGING = (0.0, 0.0, False), (14.0, 0.0, False), (30.0, 0.0, False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(DELAYS, min_size=1, max_size=10), min_size=2, max_size=3))
@example([[QUICK] * 8 + [HANGING], [SLOW_READ, QUICK, QUICK, QUICK]])
@example([[QUICK] * 7 + [HANGING], [QUICK, SLOW_READ, QUICK, QUICK]])
def test_only_one_replica_leads_however_slow_requests_are(delays):
    async def story() -> None:
        clock = VirtualClock()
        server = LeaseServer()
        leaders = [a_leader(server, clock, f"r{n}", itertools.cycle(each)) for n, each in enumerate(delays)]
        tasks = [asyncio.create_task(campaign(each)) for each in leaders]
        for _ in range(60):
            await clock.advance(1.0)
            leading = [n for n, each in enumerate(leaders) if each.holds()]
            assert len(leading) <= 1, f"{leading} lead at {clock.elapsed} s"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(story())


async def test_slow_read_of_lease_counts_its_duration_from_the_response():
    """The read of the standby takes 9 s, and returns a renewal from the end of that time."""
    clock = VirtualClock()
    server = LeaseServer()
    quick = itertools.repeat((0.0, 0.0, False))
    first = a_leader(server, clock, "first", quick)
    await first.acquire()
    renewing = asyncio.create_task(first.keep())
    second = a_leader(server, clock, "second", itertools.chain([(9.0, 0.0, False)], quick))
    taking = asyncio.create_task(second.acquire())
    await clock.advance(9.0)
    renewed = clock.elapsed - 1.0  # the last renewal was at 8 s
    renewing.cancel()  # from here on the first replica is cut off
    while not second.holds():
        await clock.advance(0.25)
        assert not (first.holds() and second.holds())
    assert clock.elapsed >= renewed + Terms().duration
    await taking
    await asyncio.gather(renewing, return_exceptions=True)


async def test_lease_duration_is_rounded_up_to_whole_seconds():
    clock = VirtualClock()
    server = LeaseServer()
    quick = itertools.repeat((0.0, 0.0, False))
    terms = Terms(duration=1.9, renew_deadline=1.8, retry=0.1)
    first = a_leader(server, clock, "first", quick, terms)
    await first.acquire()
    second = a_leader(server, clock, "second", quick, terms)
    taking = asyncio.create_task(second.acquire())
    while not second.holds():
        await clock.advance(0.1)
        assert not (first.holds() and second.holds())
    await taking


async def test_standby_leads_soon_after_the_leader_is_gone():
    clock = VirtualClock()
    server = LeaseServer()
    quick = itertools.repeat((0.01, 0.01, False))
    first, second = a_leader(server, clock, "first", quick), a_leader(server, clock, "second", quick)
    task = asyncio.create_task(first.acquire())
    await clock.advance(1.0)
    taking = asyncio.create_task(second.acquire())
    await clock.advance(Terms().duration + 2 * Terms().retry)
    assert second.holds()
    await asyncio.gather(task, taking)


def test_request_timeout_allows_a_second_request_before_the_renew_deadline():
    terms = Terms()
    assert terms.timeout + terms.retry < terms.renew_deadline
