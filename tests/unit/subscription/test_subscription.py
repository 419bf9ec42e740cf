"""Mistakes of a Subscription in the words of its users, and what its types become."""

import msgspec
import pytest

from quintet.apis.lint import problems
from quintet.apis.subscription import (
    SUBSCRIPTION,
    EventType,
    Subscription,
    clean_source,
    clean_type,
    event_types,
    subject,
    validate,
)
from quintet.manifests.crd import object_schema

SINK = "http://orders.shop.svc.cluster.local"
GOOD = {"sink": SINK, "source": "commerce", "types": ["order.created.v1"]}


def a_subscription(**spec):
    return {"metadata": {"name": "s", "namespace": "shop"}, "spec": {**GOOD, **spec}}


def said(**spec):
    return [str(error) for error in validate(a_subscription(**spec)).errors]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"sink": f"{SINK}:8080/events?x=y"},
        {"sink": SINK.replace("http", "https")},
        {"types": ["a.b", "a.c"], "typeMatching": "exact"},
        {"types": ["a.*.c", "a.b", "b.>"], "typeMatching": "wildcard"},
        {"filters": [{"not": {"any": [{"exact": {"type": "a.b"}}, {"suffix": {"subject": "/7"}}]}}]},
        {"types": ["order created.v1"]},
        {"config": {"maxInFlightMessages": 10}},
        {"config": {"maxInFlightMessages": "10000"}},
        {"config": {}},
        {"backend": "main"},
        {"delivery": {}},
        {
            "delivery": {
                "attempts": 1,
                "timeout": "1.5s",
                "backoff": {"min": "10ms", "max": "24h", "factor": 1},
            }
        },
        {"delivery": {"retryAfterMax": "0s", "permanentStatuses": [], "deadLetters": "Drop"}},
        {"delivery": {"permanentStatuses": [300, 599], "deadLetters": "Keep"}},
    ],
    ids=str,
)
def test_valid_subscription_passes(spec):
    assert said(**spec) == []


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"source": ""}, 'spec.source: Invalid value: "": must not be empty'),
        ({"source": None}, 'spec.source: Invalid value: "": must not be empty'),
        ({"source": 7}, "spec.source: Invalid type: 7: must be of type string"),
        ({"source": "*"}, 'spec.source: Invalid value: "*": contains only characters that are not allowed in a NATS subject'),
        ({"types": []}, "spec.types: Invalid value: []: must not be empty"),
        ({"types": None}, "spec.types: Invalid value: []: must not be empty"),
        ({"types": "a.b"}, 'spec.types: Invalid type: "a.b": must be of type list'),
        ({"types": [7]}, "spec.types[0]: Invalid type: 7: must be of type string"),
        ({"types": [""]}, 'spec.types[0]: Invalid value: "": must not be of length zero'),
        ({"types": ["order"]}, 'spec.types[0]: Invalid value: "order": must have minimum 2 segments'),
        ({"types": ["a..b"]}, 'spec.types[0]: Invalid value: "a..b": must not have empty segments'),
        ({"types": ["a.*"]}, 'spec.types[0]: Invalid value: "a.*": must not have empty segments'),
        ({"types": ["a.b", "a.b"]}, 'spec.types[1]: Invalid value: "a.b": must not have duplicate types'),
        ({"types": ["a.b", "a.b*"]}, 'spec.types[1]: Invalid value: "a.b*": must not have duplicate types: it matches the same events as \'a.b\''),
        ({"types": ["a b.c"], "typeMatching": "exact"}, 'spec.types[0]: Invalid value: "a b.c": must not contain a space or one of > * / \\ while typeMatching is exact'),
        ({"typeMatching": "Exact"}, "spec.typeMatching: Unsupported value: \"Exact\": must be one of 'standard', 'exact', 'wildcard' (did you mean 'exact'?)"),
        ({"types": ["a.b*"], "typeMatching": "wildcard"}, 'spec.types[0]: Invalid value: "a.b*": must have * and > only as whole segments'),
        ({"types": ["a./"], "typeMatching": "wildcard"}, 'spec.types[0]: Invalid value: "a./": must not contain a space or one of / \\ while typeMatching is wildcard'),
        ({"types": ["a.b", "a.>"], "typeMatching": "wildcard"}, "spec.types[1]: Invalid value: \"a.>\": must not match events that 'a.b' matches too"),
        ({"types": ["a.*", "a.*"], "typeMatching": "wildcard"}, 'spec.types[1]: Invalid value: "a.*": must not have duplicate types'),
        ({"filters": [{"not": {}}]}, "spec.filters[0].not: Invalid value: []: must have exactly one of exact, prefix, suffix, all, any, not"),
        ({"config": []}, "spec.config: Invalid type: []: must be of type object"),
        ({"config": {"maxInFlightMessages": 0}}, "spec.config.maxInFlightMessages: Invalid value: 0: must be a number from 1 to 10000"),
        ({"config": {"maxInFlightMessages": "ten"}}, 'spec.config.maxInFlightMessages: Invalid value: "ten": must be a number from 1 to 10000'),
        ({"config": {"maxInFlightMessages": True}}, "spec.config.maxInFlightMessages: Invalid value: true: must be a number from 1 to 10000"),
        ({"delivery": 1}, "spec.delivery: Invalid type: 1: must be of type object"),
        ({"delivery": {"attempts": 0}}, "spec.delivery.attempts: Invalid value: 0: must be a number from 1 to 10000"),
        ({"delivery": {"attempts": "3"}}, 'spec.delivery.attempts: Invalid value: "3": must be a number from 1 to 10000'),
        ({"delivery": {"timeout": 5}}, "spec.delivery.timeout: Invalid value: 5: must be a duration such as 500ms, 5s or 1m30s"),
        ({"delivery": {"timeout": "11m"}}, 'spec.delivery.timeout: Invalid value: "11m": must be from 100ms to 10m'),
        ({"delivery": {"backoff": []}}, "spec.delivery.backoff: Invalid type: []: must be of type object"),
        ({"delivery": {"backoff": {"factor": 11}}}, "spec.delivery.backoff.factor: Invalid value: 11: must be a number from 1 to 10"),
        ({"delivery": {"backoff": {"min": "1ms"}}}, 'spec.delivery.backoff.min: Invalid value: "1ms": must be from 10ms to 1h'),
        ({"delivery": {"backoff": {"min": "2s", "max": "1s"}}}, 'spec.delivery.backoff.max: Invalid value: "1s": must not be less than min, which is 2s'),
        ({"delivery": {"retryAfterMax": "25h"}}, 'spec.delivery.retryAfterMax: Invalid value: "25h": must be from 0s to 24h'),
        ({"delivery": {"permanentStatuses": [204]}}, "spec.delivery.permanentStatuses[0]: Invalid value: 204: must be a number from 300 to 599"),
        ({"delivery": {"permanentStatuses": [400, 400]}}, "spec.delivery.permanentStatuses[1]: Duplicate value: 400: must be unique"),
        ({"delivery": {"permanentStatuses": "400"}}, 'spec.delivery.permanentStatuses: Invalid type: "400": must be of type list'),
        ({"delivery": {"deadLetters": "drop"}}, "spec.delivery.deadLetters: Unsupported value: \"drop\": must be one of 'Keep', 'Drop' (did you mean 'Drop'?)"),
        ({"sink": ""}, 'spec.sink: Invalid value: "": must not be empty'),
        ({"sink": 7}, "spec.sink: Invalid type: 7: must be of type string"),
        ({"sink": "orders"}, "spec.sink: Invalid value: \"orders\": must have URL scheme 'http' or 'https'"),
        ({"sink": "http://169.254.169.254/x"}, 'spec.sink: Invalid value: "http://169.254.169.254/x": must have valid sink URL suffix svc.cluster.local'),
        ({"sink": "http://xsvc.cluster.local"}, 'spec.sink: Invalid value: "http://xsvc.cluster.local": must have valid sink URL suffix svc.cluster.local'),
        ({"sink": "http://shop.svc.cluster.local"}, 'spec.sink: Invalid value: "http://shop.svc.cluster.local": must have sink URL with 5 sub-domains'),
        ({"sink": "http://a.orders.shop.svc.cluster.local"}, 'spec.sink: Invalid value: "http://a.orders.shop.svc.cluster.local": must have sink URL with 5 sub-domains'),
        ({"sink": "http://.shop.svc.cluster.local"}, 'spec.sink: Invalid value: "http://.shop.svc.cluster.local": must have sink URL with 5 sub-domains'),
        ({"sink": "http://orders.bank.svc.cluster.local"}, 'spec.sink: Invalid value: "http://orders.bank.svc.cluster.local": must have the same namespace as the subscriber, which is \'shop\''),
        ({"sink": f"{SINK}:x"}, f'spec.sink: Invalid value: "{SINK}:x": is not a URL: check host and port'),
        ({"sink": f"{SINK}:0"}, f'spec.sink: Invalid value: "{SINK}:0": is not a URL: check host and port'),
        ({"sink": f"{SINK}/a\n"}, f'spec.sink: Invalid value: "{SINK}/a\\n": must contain only visible ASCII characters'),
        ({"sink": f"{SINK}/ü"}, f'spec.sink: Invalid value: "{SINK}/ü": must contain only visible ASCII characters'),
        ({"sink": "http://u:p@orders.shop.svc.cluster.local"}, 'spec.sink: Invalid value: "http://***@orders.shop.svc.cluster.local": must not contain a user or password'),
    ],
    ids=str,
)  # fmt: skip
def test_error_names_its_field(spec, want):
    assert said(**spec) == [want]


def test_all_errors_are_reported_at_once():
    found = validate({"metadata": {"namespace": "shop"}, "spec": {"typeMatching": "x"}}).errors
    assert [str(error.path) for error in found] == [
        "spec.source",
        "spec.types",
        "spec.typeMatching",
        "spec.sink",
    ]


def test_host_before_the_service_suffix_is_refused():
    for sink in (
        "http://evil.example.com#.shop.svc.cluster.local",
        "http://evil.example.com/.shop.svc.cluster.local",
        "http://evil.example.com?.shop.svc.cluster.local",
        "http://evil.example.com\\.shop.svc.cluster.local",
        "http://orders.shop.svc.cluster.local@evil.example.com",
    ):
        assert len(said(sink=sink)) == 1, sink


def test_sources_and_types_are_cleaned_for_subjects():
    assert clean_source("my.shop /a\\*>") == "myshopa"
    assert clean_type("order created.v1/*>\\") == "ordercreated.v1"
    assert subject("kyma", "my.shop", "order.created*") == "kyma.myshop.order.created"


def test_types_are_cleaned_unless_matching_is_exact():
    spec = msgspec.convert(a_subscription(types=["a b.c"]), Subscription).spec
    assert event_types(spec) == (EventType("a b.c", "ab.c"),)
    exact = msgspec.convert(a_subscription(types=["a.b"], typeMatching="exact"), Subscription).spec
    assert event_types(exact) == (EventType("a.b", "a.b"),)


@pytest.mark.parametrize(
    ("config", "want"), [({}, None), ({"maxInFlightMessages": 7}, 7), ({"maxInFlightMessages": "7"}, 7)]
)
def test_max_in_flight_is_a_number_in_every_spelling(config, want):
    assert msgspec.convert(a_subscription(config=config), Subscription).spec.max_in_flight == want


def test_crd_follows_the_api_conventions():
    assert problems(object_schema(SUBSCRIPTION)) == []


def test_crd_validates_max_in_flight_like_validation():
    config = object_schema(SUBSCRIPTION)["properties"]["spec"]["properties"]["config"]
    number = config["properties"]["maxInFlightMessages"]
    assert number["x-kubernetes-int-or-string"] is True
    assert number["x-kubernetes-validations"][0]["message"] == "must be a number from 1 to 10000"
