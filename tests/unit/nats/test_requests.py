"""How pending requests complete: with a response, an error or a timeout."""

import pytest

from kit.clock import VirtualClock
from quintet.nats.errors import Disconnected, NoResponders, NotPermitted, RequestTimeout
from quintet.nats.messages import Message
from quintet.nats.requests import PendingRequests


async def test_responses_resolve_their_requests_in_any_order():
    requests = PendingRequests(VirtualClock())
    (first, one), (second, two) = requests.open("a", 1), requests.open("a", 1)
    requests.resolve(Message(second, b"2"))
    requests.resolve(Message(first, b"1"))

    assert ((await one).payload, (await two).payload, len(requests)) == (b"1", b"2", 0)


async def test_requests_time_out_at_their_own_deadlines_in_any_order():
    clock = VirtualClock()
    requests = PendingRequests(clock)
    futures = {seconds: requests.open("a", seconds)[1] for seconds in (5, 1, 3)}
    ended = []
    for _ in range(60):
        await clock.advance(0.1)
        ended += [
            seconds for seconds, future in list(futures.items()) if future.done() and not ended.count(seconds)
        ]
        for seconds in ended:
            if seconds in futures and futures[seconds].done():
                assert seconds <= clock.elapsed <= seconds + 0.3
                with pytest.raises(RequestTimeout):
                    futures.pop(seconds).result()

    assert ended == [1, 3, 5]
    assert len(requests) == 0


async def test_no_responders_status_fails_the_request():
    requests = PendingRequests(VirtualClock())
    reply, future = requests.open("shop.orders", 5)
    requests.resolve(Message(reply, b"", head=b"NATS/1.0 503\r\n\r\n"))

    with pytest.raises(NoResponders, match=r"shop\.orders"):
        await future


async def test_fail_ends_requests_of_one_subject_or_all():
    requests = PendingRequests(VirtualClock())
    futures = [requests.open(subject, 5)[1] for subject in ("a", "b", "b")]
    requests.fail(NotPermitted("b"), "b")
    assert [future.done() for future in futures] == [False, True, True]
    requests.fail(Disconnected("gone"))

    with pytest.raises(Disconnected):
        await futures[0]


async def test_late_and_unknown_responses_are_ignored():
    clock = VirtualClock()
    requests = PendingRequests(clock)
    reply, future = requests.open("a", 1)
    await clock.advance(2)
    requests.resolve(Message(reply, b"late"))
    requests.resolve(Message(f"{requests.inbox}77", b"whose?"))
    requests.resolve(Message("x", b"short"))

    with pytest.raises(RequestTimeout):
        await future


async def test_cancelled_request_is_removed_at_its_deadline():
    clock = VirtualClock()
    requests = PendingRequests(clock)
    _, future = requests.open("a", 1)
    future.cancel()
    await clock.advance(2)

    assert len(requests) == 0
