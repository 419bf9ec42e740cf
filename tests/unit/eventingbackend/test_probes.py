"""When a backend is looked at again."""

from kit.clock import VirtualClock
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.probes import Probes, Timing

KEY = ObjectKey("shop", "bus")
UP, DOWN = ProbeResult(message="up"), ProbeResult(Reason.UNREACHABLE, "down")


class Backend:
    """Counts how often it is looked at."""

    def __init__(self, *findings: ProbeResult) -> None:
        self.findings = list(findings)
        self.looks = 0

    async def probe(self) -> ProbeResult:
        self.looks += 1
        return self.findings.pop(0) if len(self.findings) > 1 else self.findings[0]


async def test_result_is_valid_until_due():
    clock, backend = VirtualClock(), Backend(UP)
    probes = Probes(clock, Timing(while_ready=60))
    for _ in range(5):
        assert (await probes.probe(KEY, "q", backend.probe)).ready
    assert (backend.looks, probes.due_in(KEY)) == (1, 60)
    await clock.advance(60)
    await probes.probe(KEY, "q", backend.probe)
    assert backend.looks == 2


async def test_failing_backend_is_probed_with_backoff():
    clock, backend = VirtualClock(), Backend(DOWN)
    probes = Probes(clock, Timing(first_retry=1, last_retry=10))
    pauses = []
    for _ in range(6):
        await probes.probe(KEY, "q", backend.probe)
        pauses.append(probes.due_in(KEY))
        await clock.advance(probes.due_in(KEY))
    assert pauses == [1, 2, 4, 8, 10, 10]


async def test_changed_inputs_probe_at_once_and_reset_backoff():
    clock, backend = VirtualClock(), Backend(DOWN)
    probes = Probes(clock, Timing(first_retry=1, last_retry=10))
    for _ in range(3):
        await probes.probe(KEY, "q", backend.probe)
        await clock.advance(probes.due_in(KEY))
    await probes.probe(KEY, "another", backend.probe)
    assert (backend.looks, probes.due_in(KEY)) == (4, 1)


async def test_connection_lost_during_probe_invalidates_the_result():
    clock, backend = VirtualClock(), Backend(UP)
    probes = Probes(clock, Timing())

    async def interrupted() -> ProbeResult:
        probes.forget(KEY)
        return await backend.probe()

    await probes.probe(KEY, "q", interrupted)
    await probes.probe(KEY, "q", backend.probe)
    assert backend.looks == 2


async def test_backend_that_fails_after_being_ready_is_probed_soon():
    clock, backend = VirtualClock(), Backend(UP, DOWN)
    probes = Probes(clock, Timing(while_ready=60, first_retry=1))
    await probes.probe(KEY, "q", backend.probe)
    probes.forget(KEY)
    assert not (await probes.probe(KEY, "q", backend.probe)).ready
    assert probes.due_in(KEY) == 1
