"""When a pod of a process leads, from what is read of its Lease."""

from datetime import UTC, datetime, timedelta

import pytest

from kit.background import run_in_background
from kit.clock import VirtualClock
from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.clock import micro_timestamp
from quintet.controllers.suite.decide.leaders import LeaseView, LeaseViewSpec, observe_lease
from quintet.controllers.suite.leaders import LeaderMonitor
from quintet.kube.errors import error_for

NOW = datetime(2026, 5, 1, tzinfo=UTC)
NAME = "quintet-checkup"


def a_lease(version: int, *, holder: str | None = "pod-1", renewed: datetime = NOW) -> LeaseView:
    spec = LeaseViewSpec(holder_identity=holder, renew_time=micro_timestamp(renewed))
    return LeaseView(metadata=ObjectMeta(name=NAME, resource_version=str(version)), spec=spec)


def observe(*sightings: tuple[float, LeaseView | None]) -> list[str]:
    """Return the problem after each sighting, which happens some seconds after the start."""
    known, found = None, []
    for seconds, lease in sightings:
        known = observe_lease(known, NAME, lease, seconds, NOW + timedelta(seconds=seconds))
        found.append(known.problem)
    return found


def test_renewed_lease_has_a_leader():
    assert observe((0, a_lease(1)), (10, a_lease(2)), (20, a_lease(9))) == ["", "", ""]


def test_clock_of_another_machine_does_not_matter_while_the_lease_is_renewed():
    past = NOW - timedelta(days=1)
    first, *later = observe(*((at, a_lease(at + 1, renewed=past)) for at in (0, 10, 20, 60)))
    assert "has not renewed it since" in first, "only its time tells whether the first one is fresh"
    assert later == ["", "", ""]


@pytest.mark.parametrize(
    ("lost", "want"),
    [
        pytest.param(None, "no pod holds the Lease quintet-checkup", id="deleted"),
        pytest.param(a_lease(3, holder=""), "no pod holds the Lease quintet-checkup", id="released"),
        pytest.param(
            a_lease(2),
            "pod-1 holds the Lease quintet-checkup, but has not renewed it since 2026-05-01T00:00:00.000000Z",
            id="not renewed",
        ),
    ],
)
def test_lost_lease_is_reported_after_the_time_that_another_replica_has(lost, want):
    seen = observe((0, a_lease(1)), (10, a_lease(2)), *((at, lost) for at in (20, 30, 39, 40, 100)))
    assert seen == ["", "", "", "", "", want, want]


def test_takeover_by_another_replica_is_no_problem():
    assert observe((0, a_lease(1)), (10, a_lease(1)), (27, a_lease(2, holder="pod-2"))) == [""] * 3


@pytest.mark.parametrize("found", [None, a_lease(1, holder=""), a_lease(1, renewed=NOW - timedelta(hours=1))])
def test_process_without_a_leader_from_the_start_is_reported_at_once_until_one_leads(found):
    before, again, after = observe((0, found), (2, found), (4, a_lease(5)))
    assert before == again != ""
    assert after == ""


class Leases:
    """A client that returns Leases; an error instead of one is raised."""

    def __init__(self) -> None:
        self.found: LeaseView | Exception = error_for("GET", 404, b"")
        self.reads = 0

    async def get(self, resource: object, key: ObjectKey, kind: object) -> LeaseView:
        self.reads += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


async def test_monitor_reports_a_lost_leader_within_a_minute_and_its_successor():
    clock, leases, changes = VirtualClock(), Leases(), []
    monitor = LeaderMonitor(leases, clock, lambda: changes.append(clock.elapsed))  # type: ignore[arg-type]  # it only gets
    key = ObjectKey("quintet-system", NAME)
    assert await monitor.follow([key]) == {NAME: f"no pod holds the Lease {NAME}"}
    async with run_in_background(monitor.run()):
        await clock.advance(10)
        assert changes == []
        leases.found = a_lease(1, renewed=clock.now())
        await clock.advance(2)
        assert await monitor.follow([key]) == {}
        assert len(changes) == 1

        steady = leases.reads
        for version in range(2, 62):
            leases.found = a_lease(version, renewed=clock.now())
            await clock.advance(2)
        assert leases.reads - steady <= 13, "two minutes of a healthy leader"
        assert len(changes) == 1

        leases.found = error_for("GET", 503, b"")
        await clock.advance(300)
        assert len(changes) == 1, "without the API server nothing is known"

        lost, leases.found = clock.elapsed, a_lease(61, renewed=clock.now())
        await clock.advance(60)
        assert len(changes) == 2
        assert changes[-1] - lost <= 60
        assert "has not renewed" in (await monitor.follow([key]))[NAME]

        leases.found = a_lease(62, holder="pod-2", renewed=clock.now())
        await clock.advance(2)
        assert await monitor.follow([key]) == {}
        assert len(changes) == 3


async def test_monitor_reads_only_the_leases_that_it_follows():
    clock, leases = VirtualClock(), Leases()
    monitor = LeaderMonitor(leases, clock, lambda: None)  # type: ignore[arg-type]  # it only gets
    await monitor.follow([ObjectKey("a", "one"), ObjectKey("a", "two")])
    assert await monitor.follow([ObjectKey("a", "two")]) == {"two": "no pod holds the Lease two"}
    reads = leases.reads
    async with run_in_background(monitor.run()):
        await clock.advance(2)
    assert leases.reads - reads == 1
