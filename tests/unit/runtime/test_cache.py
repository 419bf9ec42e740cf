"""What the cache promises to controllers and handlers."""

from quintet.apis.meta import Object, ObjectKey, ObjectMeta
from quintet.runtime.cache import Store, Undecodable


def an_object(name: str, version: int, **labels: str) -> Object:
    return Object(ObjectMeta(name=name, namespace="ns", resource_version=str(version), labels=labels))


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


class Heard:
    """A handler that writes down what it hears."""

    def __init__(self, store: Store[Object]) -> None:
        self.changes: list[tuple[int | None, int | None, bool]] = []
        store.subscribe(self)

    def __call__(self, old: Object | None, new: Object | None, initial: bool) -> None:
        self.changes.append((old and old.version, new and new.version, initial))


async def test_a_handler_hears_of_adding_changing_and_removing():
    store: Store[Object] = Store()
    heard = Heard(store)
    store.replaced(set(), 1)
    store.put(an_object("a", 2))
    store.put(an_object("a", 3))
    store.remove(key("a"))
    assert heard.changes == [(None, 2, False), (2, 3, False), (3, None, False)]


async def test_the_initial_list_is_told_apart_from_live_changes():
    store: Store[Object] = Store()
    heard = Heard(store)
    store.put(an_object("a", 1))
    store.replaced({key("a")}, 5)
    store.put(an_object("b", 6))
    assert heard.changes == [(None, 1, True), (None, 6, False)]


async def test_listing_again_makes_no_work_for_unchanged_objects():
    store: Store[Object] = Store()
    store.put(an_object("same", 1))
    store.put(an_object("changed", 2))
    store.put(an_object("gone", 3))
    store.replaced({key("same"), key("changed"), key("gone")}, 3)
    heard = Heard(store)
    store.put(an_object("same", 1))
    store.put(an_object("changed", 9))
    store.replaced({key("same"), key("changed")}, 10)
    assert heard.changes == [(2, 9, False), (3, None, False)]


async def test_an_outdated_state_never_replaces_a_newer_one():
    store: Store[Object] = Store()
    store.put(an_object("a", 7))
    store.put(an_object("a", 5))
    assert store.get(key("a")) == an_object("a", 7)


async def test_an_index_follows_every_change():
    store: Store[Object] = Store({"color": lambda obj: obj.metadata.labels.values()})
    store.put(an_object("a", 1, color="red"))
    store.put(an_object("b", 2, color="red"))
    store.put(an_object("a", 3, color="blue"))
    assert [obj.key.name for obj in store.by_index("color", "red")] == ["b"]
    store.remove(key("b"))
    assert store.by_index("color", "red") == []
    assert [obj.key.name for obj in store.by_index("color", "blue")] == ["a"]


async def test_waiting_for_a_version_ends_when_the_cache_has_passed_it():
    store: Store[Object] = Store()
    called = []
    store.call_when_passed(5, lambda: called.append(5))
    store.call_when_passed(8, lambda: called.append(8))
    store.advance(4)
    assert called == []
    store.advance(6)
    assert called == [5]
    store.replaced(set(), 9)
    assert called == [5, 8]
    store.call_when_passed(9, lambda: called.append(9))
    assert called == [5, 8, 9]


async def test_an_undecodable_object_is_kept_apart_and_comes_back_when_mended():
    store: Store[Object] = Store()
    store.put(an_object("a", 1))
    store.replaced({key("a")}, 1)
    heard = Heard(store)
    broken = []
    store.on_broken.append(lambda key, initial: broken.append(key))
    store.put_broken(Undecodable(key("a"), 2, "uid", "bad"))
    assert store.get(key("a")) is None
    assert broken == [key("a")]
    assert store.all_keys() == [key("a")]
    store.put(an_object("a", 3))
    assert store.broken == {}
    assert heard.changes == [(None, 3, False)]
