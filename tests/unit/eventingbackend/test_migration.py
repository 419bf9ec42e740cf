"""How long a move waits, and for what. What the servers say is in the integration tests."""

from kit.clock import VirtualClock
from quintet.apis.meta import ObjectKey
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.migration import Migrations, StreamLocation
from quintet.controllers.eventingbackend.probes import Timing
from quintet.nats.config import ConsumerConfig
from quintet.nats.errors import ServerUnreachable
from unit.eventingbackend.samples import a_backend

KEY = ObjectKey("shop", "bus")
PLACE = StreamLocation("nats://old.example:4222", "sap")
ANOTHER = StreamLocation("nats://old.example:4222", "orders")
TWO = {"one": ConsumerConfig(durable_name="a"), "two": ConsumerConfig(durable_name="b")}


async def away(key: ObjectKey, place: StreamLocation):
    raise ServerUnreachable("no connection")


async def forbidden(key: ObjectKey, place: StreamLocation):
    return ProbeResult(Reason.SECRET_FORBIDDEN, "no")


async def test_missing_consumers_are_awaited_without_a_limit():
    clock = VirtualClock()
    moves = Migrations(away, clock, Timing())
    assert await moves.missing(KEY, PLACE, TWO) == ["one", "two"]
    await clock.advance(24 * 3600)
    assert await moves.missing(KEY, PLACE, TWO) == ["one", "two"]


async def test_unreachable_old_server_is_awaited_for_a_limited_time_and_reported():
    clock, backend = VirtualClock(), a_backend()
    moves = Migrations(forbidden, clock, Timing(longest_drain=600))
    assert await moves.left(backend, PLACE) is None
    await clock.advance(600)
    assert await moves.left(backend, PLACE) == 0
    assert await moves.left(backend, PLACE) == 0, "until the end it is not waited for again"
    (note,) = moves.end(backend.key, ANOTHER)
    assert "stream sap " in note
    assert await moves.left(backend, PLACE) is None, "another move has its own time"
    assert moves.end(backend.key, ANOTHER) == []


async def test_second_migration_has_its_own_time_limit():
    clock, backend = VirtualClock(), a_backend()
    moves = Migrations(away, clock, Timing(longest_drain=120))
    assert await moves.left(backend, PLACE) is None
    await clock.advance(120)
    assert await moves.left(backend, ANOTHER) is None
    assert await moves.left(backend, PLACE) == 0


def test_abandoned_stream_is_reported_unless_publishers_returned():
    moves = Migrations(away, VirtualClock(), Timing())
    moves.abandon(KEY, PLACE)
    moves.abandon(KEY, ANOTHER)
    (note,) = moves.end(KEY, ANOTHER)
    assert "stream sap " in note
    assert moves.end(KEY, None) == []
