"""Tests of the cache: versions, indexes, handlers and objects that do not decode."""

from quintet.apis.meta import Object, ObjectKey, ObjectMeta
from quintet.runtime.cache import Store, Undecodable


def an_object(name: str, version: int, **labels: str) -> Object:
    return Object(ObjectMeta(name=name, namespace="ns", resource_version=str(version), labels=labels))


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


class Heard:
    """A handler that records its calls."""

    def __init__(self, store: Store[Object]) -> None:
        self.changes: list[tuple[int | None, int | None, bool]] = []
        store.subscribe(self)

    def __call__(self, old: Object | None, new: Object | None, initial: bool) -> None:
        self.changes.append((old and old.version, new and new.version, initial))


async def test_handler_is_called_for_added_changed_and_removed_objects():
    store: Store[Object] = Store()
    heard = Heard(store)
    store.finish_list(set(), 1)
    store.put(an_object("a", 2))
    store.put(an_object("a", 3))
    store.remove(key("a"))
    assert heard.changes == [(None, 2, False), (2, 3, False), (3, None, False)]


async def test_handler_is_told_which_objects_are_from_the_initial_list():
    store: Store[Object] = Store()
    heard = Heard(store)
    store.put(an_object("a", 1))
    store.finish_list({key("a")}, 5)
    store.put(an_object("b", 6))
    assert heard.changes == [(None, 1, True), (None, 6, False)]


async def test_second_list_does_not_call_handlers_for_unchanged_objects():
    store: Store[Object] = Store()
    store.put(an_object("same", 1))
    store.put(an_object("changed", 2))
    store.put(an_object("gone", 3))
    store.finish_list({key("same"), key("changed"), key("gone")}, 3)
    heard = Heard(store)
    store.put(an_object("same", 1))
    store.put(an_object("changed", 9))
    store.finish_list({key("same"), key("changed")}, 10)
    assert heard.changes == [(2, 9, False), (3, None, False)]


async def test_store_ignores_a_version_older_than_the_known_one():
    store: Store[Object] = Store()
    store.put(an_object("a", 7))
    store.put(an_object("a", 5))
    assert store.get(key("a")) == an_object("a", 7)


async def test_index_is_updated_on_every_change():
    store: Store[Object] = Store({"color": lambda obj: obj.metadata.labels.values()})
    store.put(an_object("a", 1, color="red"))
    store.put(an_object("b", 2, color="red"))
    store.put(an_object("a", 3, color="blue"))
    assert [obj.key.name for obj in store.by_index("color", "red")] == ["b"]
    store.remove(key("b"))
    assert store.by_index("color", "red") == []
    assert [obj.key.name for obj in store.by_index("color", "blue")] == ["a"]


async def test_callback_runs_once_the_cache_has_passed_its_version():
    store: Store[Object] = Store()
    called = []
    store.call_when_passed(5, lambda: called.append(5))
    store.call_when_passed(8, lambda: called.append(8))
    store.advance(4)
    assert called == []
    store.advance(6)
    assert called == [5]
    store.finish_list(set(), 9)
    assert called == [5, 8]
    store.call_when_passed(9, lambda: called.append(9))
    assert called == [5, 8, 9]


async def test_undecodable_object_is_kept_apart_until_it_decodes_again():
    store: Store[Object] = Store()
    store.put(an_object("a", 1))
    store.finish_list({key("a")}, 1)
    heard = Heard(store)
    broken = []
    store.on_undecodable.append(lambda key, initial: broken.append(key))
    store.put_undecodable(Undecodable(key("a"), 2, "uid", "bad"))
    assert store.get(key("a")) is None
    assert broken == [key("a")]
    assert store.all_keys() == [key("a")]
    store.put(an_object("a", 3))
    assert store.undecodable == {}
    assert heard.changes == [(None, 3, False)]


def an_object_in(namespace: str, name: str, version: int) -> Object:
    return Object(ObjectMeta(name=name, namespace=namespace, resource_version=str(version)))


async def test_list_of_one_namespace_keeps_objects_of_another():
    store: Store[Object] = Store()
    for namespace in ("a", "b"):
        store.add_source(namespace)
    store.put(an_object_in("a", "gone", 1))
    store.put(an_object_in("b", "kept", 2))
    store.finish_list(set(), 5, "a")
    assert store.all_keys() == [ObjectKey("b", "kept")]


async def test_store_is_synced_when_every_namespace_is_listed():
    store: Store[Object] = Store()
    heard = Heard(store)
    for namespace in ("a", "b"):
        store.add_source(namespace)
    store.finish_list(set(), 5, "a")
    assert not store.synced.is_set()
    store.put(an_object_in("a", "live", 6))
    store.put(an_object_in("b", "listed", 2))
    store.finish_list({ObjectKey("b", "listed")}, 7, "b")
    assert store.synced.is_set()
    assert heard.changes == [(None, 6, False), (None, 2, True)], "only objects of a first list are initial"


async def test_each_source_has_its_own_version():
    store: Store[Object] = Store()
    for namespace in ("a", "b"):
        store.add_source(namespace)
    called: list[str] = []
    store.call_when_passed(5, lambda: called.append("a"), "a")
    store.call_when_passed(5, lambda: called.append("all"))
    store.advance(9, "a")
    assert called == ["a"]
    assert (store.version_of("a"), store.version) == (9, 0)
    store.advance(6, "b")
    assert called == ["a", "all"]
    assert store.version == 6
