"""The echo of our own writes is no news; everything else is."""

import pytest

from quintet.apis.meta import Object, ObjectKey, ObjectMeta
from quintet.runtime.cache import Store
from quintet.runtime.ownwrites import OwnWrites

OWNER, CHILD = ObjectKey("ns", "owner"), ObjectKey("ns", "child")


def a_child(version: int) -> Object:
    return Object(ObjectMeta(name="child", namespace="ns", resource_version=str(version)))


@pytest.fixture
def woken() -> list[ObjectKey]:
    return []


@pytest.fixture
def store() -> Store[Object]:
    return Store()


@pytest.fixture
def writes(woken) -> OwnWrites:
    return OwnWrites(woken.append)


async def test_an_event_after_the_answer_is_an_echo_once(writes, store, woken):
    with writes.sending(OWNER, store, CHILD) as write:
        write.answered = 5
    assert writes.is_echo(store, a_child(5))
    assert not writes.is_echo(store, a_child(5))
    assert woken == []


async def test_an_event_that_overtakes_the_answer_is_an_echo(writes, store, woken):
    with writes.sending(OWNER, store, CHILD) as write:
        assert writes.is_echo(store, a_child(5))
        write.answered = 5
    assert woken == []


async def test_somebody_elses_change_during_our_write_is_not_lost(writes, store, woken):
    with writes.sending(OWNER, store, CHILD) as write:
        writes.is_echo(store, a_child(5))
        writes.is_echo(store, a_child(6))  # theirs, right after ours
        write.answered = 5
    assert woken == [OWNER]


async def test_somebody_elses_change_before_our_write_is_not_lost(writes, store, woken):
    with writes.sending(OWNER, store, CHILD) as write:
        writes.is_echo(store, a_child(4))
        write.answered = 5
    assert woken == [OWNER]


async def test_what_was_seen_during_a_write_that_failed_is_not_lost(writes, store, woken):
    with writes.sending(OWNER, store, CHILD):
        writes.is_echo(store, a_child(5))  # and no answer ever comes
    assert woken == [OWNER]


async def test_a_later_change_is_news(writes, store):
    with writes.sending(OWNER, store, CHILD) as write:
        write.answered = 5
    assert not writes.is_echo(store, a_child(7))


async def test_a_key_waits_for_the_cache_that_lags_most(writes, store):
    other: Store[Object] = Store()
    writes.record(OWNER, store, 5)
    writes.record(OWNER, other, 9)
    assert writes.missing(OWNER) == (store, 5)
    store.advance(5)
    assert writes.missing(OWNER) == (other, 9)
    other.advance(9)
    assert writes.missing(OWNER) is None


async def test_two_owners_may_write_to_one_child_at_once(writes, store, woken):
    other = ObjectKey("ns", "other")
    with writes.sending(OWNER, store, CHILD) as first:
        with writes.sending(other, store, CHILD) as second:
            writes.is_echo(store, a_child(5))
            second.answered = 5
        writes.is_echo(store, a_child(6))
        first.answered = 6
    assert woken == []
    assert not writes.is_echo(store, a_child(7)), "no write is under way any more"


async def test_of_two_writes_that_meet_each_owner_hears_of_the_other(writes, store, woken):
    other = ObjectKey("ns", "other")
    first, second = writes.sending(OWNER, store, CHILD), writes.sending(other, store, CHILD)
    one, two = first.__enter__(), second.__enter__()
    writes.is_echo(store, a_child(5))
    writes.is_echo(store, a_child(6))
    one.answered, two.answered = 5, 6
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert woken == [OWNER], "what the other wrote was not its doing"
