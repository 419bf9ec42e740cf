"""Which EventingBackend a Subscription uses."""

import pytest

from quintet.apis.eventingbackend import EventingBackend, EventingBackendSpec
from quintet.apis.meta import ObjectMeta
from quintet.apis.subscription import BackendInUse, Subscription, SubscriptionSpec, SubscriptionStatus
from quintet.eventing.decide.choice import DEFAULT, NoBackend, choose_backend


def a_backend(name, *, default=False, deleting=False):
    return EventingBackend(
        metadata=ObjectMeta(
            name=name,
            namespace="shop",
            labels={DEFAULT[0]: DEFAULT[1]} if default else {},
            deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None,
        ),
        spec=EventingBackendSpec(type="nats"),
    )


def a_subscription(wanted="", in_use=""):
    return Subscription(
        metadata=ObjectMeta(name="orders", namespace="shop"),
        spec=SubscriptionSpec(sink="", source="", types=(), backend=wanted),
        status=SubscriptionStatus(backend=BackendInUse(name=in_use)),
    )


@pytest.mark.parametrize(
    ("wanted", "in_use", "backends", "want"),
    [
        pytest.param("", "", [a_backend("a")], "a", id="the only one"),
        pytest.param("b", "", [a_backend("a"), a_backend("b")], "b", id="the one that is named"),
        pytest.param("b", "", [a_backend("a", default=True), a_backend("b")], "b", id="a name beats a label"),
        pytest.param(
            "", "", [a_backend("a"), a_backend("b", default=True)], "b", id="the one that is labelled"
        ),
        pytest.param(
            "", "a", [a_backend("a"), a_backend("b")], "a", id="a second backend does not stop what works"
        ),
        pytest.param("", "a", [a_backend("a"), a_backend("b", default=True)], "b", id="a label moves it"),
        pytest.param(
            "", "", [a_backend("a", deleting=True), a_backend("b")], "b", id="one that goes does not count"
        ),
        pytest.param(
            "", "a", [a_backend("a", deleting=True)], "a", id="one that goes is still the one in use"
        ),
    ],
)
def test_backend_is_chosen(wanted, in_use, backends, want):
    found = choose_backend(a_subscription(wanted, in_use), backends)
    assert isinstance(found, EventingBackend), found
    assert found.metadata.name == want


@pytest.mark.parametrize(
    ("wanted", "backends", "want_reason", "want_words"),
    [
        pytest.param("", [], "BackendNotFound", "create one", id="there is none"),
        pytest.param("c", [a_backend("a")], "BackendNotFound", "'c'", id="the named one is not there"),
        pytest.param("", [a_backend("a"), a_backend("b")], "BackendUnclear", "a, b", id="several, none labelled"),
        pytest.param(
            "", [a_backend("a", default=True), a_backend("b", default=True)], "BackendUnclear", "all labelled",
            id="several labelled",
        ),
    ],
)  # fmt: skip
def test_missing_backend_gives_a_reason_with_next_step(wanted, backends, want_reason, want_words):
    found = choose_backend(a_subscription(wanted), backends)
    assert isinstance(found, NoBackend), found
    assert found.reason == want_reason
    assert want_words in found.message
