"""The objects that a Subscription names."""

import pytest

from quintet.apis.meta import ObjectKey
from quintet.inspect.relations.subscriptions import backend_name, dispatcher_selector, sink_service


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("http://orders.shop.svc.cluster.local:8080/events", ObjectKey("shop", "orders")),
        ("http://orders.shop.svc/", ObjectKey("shop", "orders")),
        ("https://orders.example.com/", None),
        ("", None),
    ],
    ids=["full name", "short name", "other host", "no sink"],
)
def test_sink_service_is_found_in_url(url, want):
    assert sink_service(url) == want


def test_backend_in_use_precedes_desired_backend():
    subscription = {"spec": {"backend": "new"}, "status": {"backend": {"name": "old"}}}
    assert backend_name(subscription) == "old"
    assert backend_name({"spec": {"backend": "new"}}) == "new"
    assert dispatcher_selector(subscription) == "eventing.kyma-project.io/backend=old-dispatcher"
