"""Tests of the tracking of our own writes: only their echoes are ignored."""

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


async def test_watch_event_after_the_response_is_an_echo_once(writes, store, woken):
    with writes.track(OWNER, store, CHILD) as write:
        write.response_version = 5
    assert writes.is_echo(store, a_child(5))
    assert not writes.is_echo(store, a_child(5))
    assert woken == []


async def test_watch_event_before_the_response_is_an_echo(writes, store, woken):
    with writes.track(OWNER, store, CHILD) as write:
        assert writes.is_echo(store, a_child(5))
        write.response_version = 5
    assert woken == []


async def test_foreign_change_during_a_write_requeues_the_owner(writes, store, woken):
    with writes.track(OWNER, store, CHILD) as write:
        writes.is_echo(store, a_child(5))
        writes.is_echo(store, a_child(6))  # a foreign change right after our write
        write.response_version = 5
    assert woken == [OWNER]


async def test_foreign_change_before_a_write_requeues_the_owner(writes, store, woken):
    with writes.track(OWNER, store, CHILD) as write:
        writes.is_echo(store, a_child(4))
        write.response_version = 5
    assert woken == [OWNER]


async def test_change_during_a_failed_write_requeues_the_owner(writes, store, woken):
    with writes.track(OWNER, store, CHILD):
        writes.is_echo(store, a_child(5))  # and the response never arrives
    assert woken == [OWNER]


async def test_change_after_a_write_is_not_an_echo(writes, store):
    with writes.track(OWNER, store, CHILD) as write:
        write.response_version = 5
    assert not writes.is_echo(store, a_child(7))


async def test_find_stale_cache_returns_each_cache_that_lags(writes, store):
    other: Store[Object] = Store()
    writes.record(OWNER, store, 5)
    writes.record(OWNER, other, 9)
    assert writes.find_stale_cache(OWNER) == (store, None, 5)
    store.advance(5)
    assert writes.find_stale_cache(OWNER) == (other, None, 9)
    other.advance(9)
    assert writes.find_stale_cache(OWNER) is None


async def test_write_waits_only_for_the_watch_of_its_own_namespace(writes):
    store: Store[Object] = Store()
    for namespace in ("ns", "quiet"):
        store.add_source(namespace)
    with writes.track(OWNER, store, CHILD) as write:
        write.response_version = 5
    assert writes.find_stale_cache(OWNER) == (store, "ns", 5)
    store.advance(9, "quiet")
    assert writes.find_stale_cache(OWNER) == (store, "ns", 5), "another namespace says nothing about this one"
    store.advance(5, "ns")
    assert writes.find_stale_cache(OWNER) is None


async def test_writes_of_two_owners_to_one_child_are_tracked(writes, store, woken):
    other = ObjectKey("ns", "other")
    with writes.track(OWNER, store, CHILD) as first:
        with writes.track(other, store, CHILD) as second:
            writes.is_echo(store, a_child(5))
            second.response_version = 5
        writes.is_echo(store, a_child(6))
        first.response_version = 6
    assert woken == []
    assert not writes.is_echo(store, a_child(7)), "no write is under way any more"


async def test_concurrent_writes_of_two_owners_requeue_both(writes, store, woken):
    other = ObjectKey("ns", "other")
    first, second = writes.track(OWNER, store, CHILD), writes.track(other, store, CHILD)
    one, two = first.__enter__(), second.__enter__()
    writes.is_echo(store, a_child(5))
    writes.is_echo(store, a_child(6))
    one.response_version, two.response_version = 5, 6
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert woken == [OWNER], "what the other wrote was not its doing"
