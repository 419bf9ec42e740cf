"""The publisher proxy under load while it or its NATS server is stopped and restarted.

Every event that was acknowledged with 204 is in the stream. The publishers of these tests resend an event after any
other response.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kit.eventually import eventually
from kit.nats.publishers import DURABLE, Publisher, Stream, a_publisher, a_stream, binary, settings
from kit.nats.server import NatsServer, a_nats_server
from quintet.nats.errors import NatsError

PUBLISHERS = 8
PATIENCE = 120


class Load:
    """Publishers that run until stopped; `acknowledged` lists the events that got 204.

    They use the proxies at `ports`, which may change like the endpoints of a Service.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = list(ports)
        self.acknowledged: set[str] = set()
        self.refusals: dict[str, int] = {}
        self._stop = asyncio.Event()

    @property
    def count(self) -> int:
        return len(self.acknowledged)

    async def more(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        target = self.count + count

        def assert_enough() -> None:
            assert self.count >= target, f"{self.count} of {target}; refused: {self.refusals}"

        await eventually(assert_enough, within=PATIENCE)

    async def _publish(self, name: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            await self._until_taken(f"{name}-{number}", number + name)

    async def _until_taken(self, identity: str, turn: int) -> None:
        """The same event, to one proxy after the other, until one of them has it."""
        while not self._stop.is_set():
            turn += 1
            port = self.ports[turn % len(self.ports)]
            status = await self._once(port, identity)
            if status == "204":
                self.acknowledged.add(identity)
                return
            self.refusals[status] = self.refusals.get(status, 0) + 1
            await asyncio.sleep(0.01)

    async def _once(self, port: int, identity: str) -> str:
        try:
            async with asyncio.timeout(30):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(binary(identity))
                    return (await reader.readuntil(b"\r\n\r\n"))[9:12].decode()
                finally:
                    writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError) as error:
            return type(error).__name__

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Load"]:
        async with asyncio.TaskGroup() as group:
            for name in range(PUBLISHERS):
                group.create_task(self._publish(name))
            try:
                yield self
            finally:
                self._stop.set()


async def list_event_ids(stream: Stream) -> list[str]:
    """Return the ids of all stored events."""
    info = await stream.jetstream.stream_info("sap")
    first, last = info.state.first_seq, info.state.last_seq
    return [(await stream.headers(number))["ce-id"] for number in range(first, last + 1)]


async def assert_stored_once(stream: Stream, load: Load) -> None:
    found = await list_event_ids(stream)
    assert not load.acknowledged - set(found), "an acknowledged event is lost"
    assert len(found) == len(set(found)), "an event is stored twice"


async def test_rolling_restart_of_publisher_proxies_loses_no_event(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server, DURABLE) as stream,
        a_publisher(settings(server.url, seconds=30.0), leave=0.5) as first,
        a_publisher(settings(server.url, seconds=30.0), leave=0.5) as second,
    ):
        for each in (first, second):
            await each.ready()
        load = Load(first.port, second.port)
        async with load.running():
            for each in (first, second, first):
                await load.more(300)
                assert await each.stop() == 0, each.program.log
                load.ports.remove(each.port)
                await load.more(100)
                await each.start()
                await each.ready()
                load.ports.append(each.port)
            await load.more(300)
        await assert_stored_once(stream, load)
        # Every accepted connection got 204; refused clients went to another proxy.
        assert not load.refusals.keys() - {"ConnectionRefusedError", "ConnectionResetError"}, load.refusals


async def test_killed_publisher_proxy_loses_no_acknowledged_event(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server, DURABLE) as stream,
        a_publisher(settings(server.url)) as first,
        a_publisher(settings(server.url)) as second,
    ):
        load = Load(first.port, second.port)
        async with load.running():
            for each in (first, second):
                await load.more(200)
                each.program.kill()
                await load.more(100)
                await each.start()
            await load.more(200)
        await assert_stored_once(stream, load)


async def test_killed_and_restarted_nats_server_loses_no_acknowledged_event(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server, DURABLE) as stream,
        a_publisher(settings(server.url)) as publisher,
    ):
        load = Load(publisher.port)
        async with load.running():
            for _ in range(3):
                await load.more(200)
                await server.kill()
                await eventually(lambda: _assert_unready(publisher))
                await server.start()
                await load.more(200)
        assert load.refusals.keys() & {"502", "504"}, f"the server was away: {load.refusals}"
        await eventually(lambda: _assert_all_stored(stream, load), within=PATIENCE)


async def _assert_all_stored(stream: Stream, load: Load) -> None:
    try:
        await assert_stored_once(stream, load)
    except NatsError as error:
        raise AssertionError(f"the stream does not answer yet: {error}") from error


async def _assert_unready(publisher: Publisher) -> None:
    answer = await publisher.get("/readyz")
    assert answer.status == 500, answer
    assert (await publisher.get("/healthz")).status == 200


async def test_publisher_acknowledges_requests_in_flight_after_sigterm(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server, DURABLE) as stream,
        a_publisher(settings(server.url, seconds=60), leave=0, grace=60) as publisher,
    ):
        await publisher.ready()
        await server.freeze()
        waiting = [asyncio.create_task(publisher.ask(binary(number))) for number in range(50)]
        await eventually(lambda: _assert_in_flight(publisher, 50))
        leaving = asyncio.create_task(publisher.stop())
        await eventually(lambda: _assert_closed(publisher))
        assert not any(each.done() for each in waiting)
        server.thaw()
        answers = [await each for each in waiting]
        assert {answer.status for answer in answers} == {204}
        assert {answer.headers["connection"] for answer in answers} == {"close"}
        assert await leaving == 0, publisher.program.log
        assert sorted(map(int, await list_event_ids(stream))) == list(range(50))


async def test_publisher_accepts_events_while_readiness_reports_shutdown(tmp_path: Path):
    async with (
        a_nats_server(tmp_path / "nats") as server,
        a_stream(server, DURABLE),
        a_publisher(settings(server.url), leave=300) as publisher,
    ):
        await publisher.ready()
        publisher.program.signal(signal.SIGTERM)

        async def assert_leaving() -> None:
            answer = await publisher.get("/readyz")
            assert (answer.status, answer.body) == (500, b"shutting down"), answer

        await eventually(assert_leaving)
        answer = await publisher.ask(binary())
        assert (answer.status, answer.headers["connection"]) == (204, "close")


async def _assert_in_flight(publisher: Publisher, count: int) -> None:
    assert f"eventing_epp_events_in_flight {count}.0" in await publisher.metrics()


async def _assert_closed(publisher: Publisher) -> None:
    try:
        await publisher.get("/healthz")
    except OSError:
        return
    raise AssertionError("it still takes connections")


async def test_publisher_stops_cleanly_when_nats_server_was_never_reachable(
    tmp_path: Path,
):
    server = NatsServer(tmp_path / "nats")
    async with a_publisher(settings(server.url)) as publisher:
        assert (await publisher.ask(binary())).status == 502
        assert await publisher.stop() == 0, publisher.program.log
