"""What is remembered of the kinds that a server has, and when one is believed to be gone."""

import pytest

from kit.clock import VirtualClock
from quintet.apis.casconfig.kinds import find_recorded
from quintet.apis.meta import JsonObject, Resource
from quintet.controllers.casconfig.kinds import (
    ABSENT_SECONDS,
    CACHE_SECONDS,
    PUBLISH_SECONDS,
    RETRY_SECONDS,
    Kinds,
    NotPublishedError,
)
from quintet.kube import discovery

OLD, NEW, NEXT = (
    Resource("example.com", each, "Rollout", "rollouts") for each in ("v1beta1", "v1", "v2alpha1")
)
OTHER = Resource("other.example.com", "v1beta1", "Rollout", "rollouts")
TEXT = "example.com/v1beta1/Rollout"


class Server:
    """Serves what it is told to, and counts how often it was asked."""

    def __init__(self, *served: Resource) -> None:
        self.served, self.asked = served, 0
        self.document: JsonObject = {}

    async def list_resources(self, _: object) -> tuple[Resource, ...]:
        self.asked += 1
        return self.served

    async def published(self, *_: object) -> JsonObject:
        return self.document


@pytest.fixture
def server(monkeypatch) -> Server:
    server = Server(NEW, OLD)
    monkeypatch.setattr(discovery, "list_resources", server.list_resources)
    monkeypatch.setattr(discovery, "read_openapi", server.published)
    return server


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param((NEW, OLD, OTHER), OLD, id="the very version"),
        pytest.param((OTHER, NEW, NEXT), NEW, id="else the preferred one"),
        pytest.param((OTHER,), None, id="never of another group"),
        pytest.param((), None, id="nothing"),
    ],
)
def test_recorded_kind_is_found_in_any_version(known, want):
    assert find_recorded(TEXT, known) == want


async def test_kind_is_gone_after_being_absent_for_a_while(server: Server):
    clock = VirtualClock()
    kinds, looks = Kinds(None, clock), []
    server.served = ()
    for _ in range(int(ABSENT_SECONDS // RETRY_SECONDS) + 1):
        looks.append(await kinds.is_gone(TEXT))
        await clock.advance(RETRY_SECONDS)
    assert (looks[:-1], looks[-1]) == ([False] * (len(looks) - 1), True)


async def test_kind_that_is_absent_for_a_moment_is_not_gone(server: Server):
    clock = VirtualClock()
    kinds = Kinds(None, clock)
    for served in ((), (NEW,), ()):
        server.served = served
        assert not await kinds.is_gone(TEXT)
        await clock.advance(ABSENT_SECONDS)


async def test_invalidate_refreshes_types_once_per_interval(server: Server):
    clock = VirtualClock()
    kinds = Kinds(None, clock)
    assert await kinds.find_recorded(TEXT) == OLD
    await clock.advance(RETRY_SECONDS)
    server.served = (NEW,)
    assert (await kinds.find_recorded(TEXT), server.asked) == (OLD, 1)
    assert kinds.invalidate()
    assert (await kinds.find_recorded(TEXT), server.asked) == (NEW, 2)
    assert not kinds.invalidate()
    await clock.advance(CACHE_SECONDS - 1)
    assert (await kinds.find_recorded(TEXT), server.asked) == (NEW, 2)


async def test_type_without_schema_is_awaited_once_and_looked_up_again_later(server: Server):
    clock = VirtualClock()
    kinds = Kinds(None, clock)
    with pytest.raises(NotPublishedError):
        await kinds.pod(NEW)
    await clock.advance(PUBLISH_SECONDS)
    for _ in range(2):
        assert await kinds.pod(NEW) is None
        assert kinds.is_unpublished(NEW)
        await clock.advance(CACHE_SECONDS)
    containers = {"type": "array", "items": {"properties": {"name": {}, "image": {}}}}
    spec = {"properties": {"template": {"properties": {"spec": {"properties": {"containers": containers}}}}}}
    what = {"group": NEW.group, "version": NEW.version, "kind": NEW.kind}
    schema = {"properties": {"spec": spec}, "x-kubernetes-group-version-kind": [what]}
    server.document = {"components": {"schemas": {"Rollout": schema}}}
    assert await kinds.pod(NEW) == ("spec", "template", "spec")
    assert not kinds.is_unpublished(NEW)
