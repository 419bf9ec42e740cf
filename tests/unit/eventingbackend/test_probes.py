"""When a backend is looked at again."""

from kit.clock import VirtualClock
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.probes import Probes, Timing

KEY = ObjectKey("shop", "bus")
UP, DOWN = ProbeResult(message="up"), ProbeResult(reason=Reason.UNREACHABLE, message="down")


class Backend:
    """Counts how often it is looked at."""

    def __init__(self, *findings: ProbeResult) -> None:
        self.findings = list(findings)
        self.looks = 0

    async def probe(self) -> ProbeResult:
        self.looks += 1
        return self.findings.pop(0) if len(self.findings) > 1 else self.findings[0]


async def test_what_was_found_holds_until_it_is_due():
    clock, backend = VirtualClock(), Backend(UP)
    probes = Probes(clock, Timing(while_ready=60))
    for _ in range(5):
        assert (await probes.look(KEY, "q", backend.probe)).ready
    assert (backend.looks, probes.due_in(KEY)) == (1, 60)
    await clock.advance(60)
    await probes.look(KEY, "q", backend.probe)
    assert backend.looks == 2


async def test_a_backend_that_is_down_is_looked_at_ever_more_rarely():
    clock, backend = VirtualClock(), Backend(DOWN)
    probes = Probes(clock, Timing(first_retry=1, last_retry=10))
    pauses = []
    for _ in range(6):
        await probes.look(KEY, "q", backend.probe)
        pauses.append(probes.due_in(KEY))
        await clock.advance(probes.due_in(KEY))
    assert pauses == [1, 2, 4, 8, 10, 10]


async def test_another_question_is_asked_at_once_and_starts_anew():
    clock, backend = VirtualClock(), Backend(DOWN)
    probes = Probes(clock, Timing(first_retry=1, last_retry=10))
    for _ in range(3):
        await probes.look(KEY, "q", backend.probe)
        await clock.advance(probes.due_in(KEY))
    await probes.look(KEY, "another", backend.probe)
    assert (backend.looks, probes.due_in(KEY)) == (4, 1)


async def test_a_connection_that_is_lost_while_we_look_is_not_covered_by_what_we_find():
    clock, backend = VirtualClock(), Backend(UP)
    probes = Probes(clock, Timing())

    async def interrupted() -> ProbeResult:
        probes.forget(KEY)
        return await backend.probe()

    await probes.look(KEY, "q", interrupted)
    await probes.look(KEY, "q", backend.probe)
    assert backend.looks == 2


async def test_a_backend_that_was_up_is_tried_soon_when_it_goes_down():
    clock, backend = VirtualClock(), Backend(UP, DOWN)
    probes = Probes(clock, Timing(while_ready=60, first_retry=1))
    await probes.look(KEY, "q", backend.probe)
    probes.forget(KEY)
    assert not (await probes.look(KEY, "q", backend.probe)).ready
    assert probes.due_in(KEY) == 1
