"""When the subjects of an earlier configuration are given up. Servers are in the fault tests."""

from kit.clock import VirtualClock
from quintet.controllers.eventingbackend.former_subjects import FormerSubjects
from quintet.controllers.eventingbackend.migration import StreamLocation
from quintet.controllers.eventingbackend.probes import Timing
from quintet.nats.errors import ServerUnreachable
from unit.eventingbackend.samples import a_backend

PLACE = StreamLocation("nats://nats.example:4222", "sap", ("new", ""))
ANOTHER = StreamLocation("nats://nats.example:4222", "sap", ("newer", ""))


async def test_former_subjects_are_kept_until_replaced_publishers_have_ended():
    clock, backend, asked = VirtualClock(), a_backend(), []

    async def connect(key, location):
        asked.append(location)
        raise ServerUnreachable("no connection")

    former = FormerSubjects(connect, clock, Timing(publisher_end=120))
    assert not await former.are_unused(backend, PLACE)
    await clock.advance(119)
    assert not await former.are_unused(backend, ANOTHER), "another move waits from its own start"
    await clock.advance(119)
    assert not await former.are_unused(backend, ANOTHER)
    assert asked == []
    await clock.advance(1)
    assert not await former.are_unused(backend, ANOTHER), "an unreachable server may have events"
    assert asked == [ANOTHER]
