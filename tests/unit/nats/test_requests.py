"""Requests end: with an answer, with an error, or with their deadline."""

import pytest

from kit.clock import VirtualClock
from quintet.nats.errors import Disconnected, NoResponders, NotPermitted, RequestTimeout
from quintet.nats.messages import Message
from quintet.nats.requests import Requests


async def test_an_answer_finds_its_request():
    requests = Requests(VirtualClock())
    (first, one), (second, two) = requests.open("a", 1), requests.open("a", 1)
    requests.answer(Message(second, b"2"))
    requests.answer(Message(first, b"1"))

    assert ((await one).payload, (await two).payload, len(requests)) == (b"1", b"2", 0)


async def test_each_request_ends_at_its_own_deadline_whatever_order_they_came_in():
    clock = VirtualClock()
    requests = Requests(clock)
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


async def test_nobody_listening_is_told_at_once():
    requests = Requests(VirtualClock())
    reply, future = requests.open("shop.orders", 5)
    requests.answer(Message(reply, b"", head=b"NATS/1.0 503\r\n\r\n"))

    with pytest.raises(NoResponders, match=r"shop\.orders"):
        await future


async def test_an_error_ends_the_requests_of_its_subject_or_all():
    requests = Requests(VirtualClock())
    futures = [requests.open(subject, 5)[1] for subject in ("a", "b", "b")]
    requests.fail(NotPermitted("b"), "b")
    assert [future.done() for future in futures] == [False, True, True]
    requests.fail(Disconnected("gone"))

    with pytest.raises(Disconnected):
        await futures[0]


async def test_an_answer_that_comes_too_late_or_to_nobody_is_dropped():
    clock = VirtualClock()
    requests = Requests(clock)
    reply, future = requests.open("a", 1)
    await clock.advance(2)
    requests.answer(Message(reply, b"late"))
    requests.answer(Message(f"{requests.inbox}77", b"whose?"))
    requests.answer(Message("x", b"short"))

    with pytest.raises(RequestTimeout):
        await future


async def test_a_request_that_was_cancelled_leaves_nothing_behind():
    clock = VirtualClock()
    requests = Requests(clock)
    _, future = requests.open("a", 1)
    future.cancel()
    await clock.advance(2)

    assert len(requests) == 0
