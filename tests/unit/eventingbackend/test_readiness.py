"""When a backend is ready, and what is said when it is not."""

import itertools

import pytest

from quintet.apis.eventingbackend import PartCondition, config_faults, ready_now, status_of
from quintet.apis.eventingbackend.catalog import NATS
from quintet.apis.meta import find_condition

UP = PartCondition("True")


def a_status(backend=UP, publisher=UP, subscriptions=UP, faults=()):
    return status_of(
        backend_type="nats",
        generation=5,
        faults=faults,
        in_use=(),
        backend=backend,
        publisher=publisher,
        subscriptions=subscriptions,
    )


@pytest.mark.parametrize(
    "states", list(itertools.product(["True", "False", "Unknown"], repeat=3)), ids=" ".join
)
def test_backend_is_ready_only_if_every_part_is(states):
    status = a_status(*map(PartCondition, states))
    want_ready = set(states) == {"True"}
    assert status.eventing_ready is want_ready
    ready = find_condition(status.conditions, "Ready")
    assert ready.status == ("True" if want_ready else "False" if "False" in states else "Unknown")


def test_status_of_an_older_generation_is_not_ready():
    assert ready_now(a_status(), 5)
    assert not ready_now(a_status(), 6)
    assert not ready_now(a_status(publisher=PartCondition("Unknown")), 5)


def test_part_that_is_not_ready_reports_why():
    status = a_status(
        backend=PartCondition("False", "NATS server not reached", "connection to h:4222 refused")
    )
    assert find_condition(status.conditions, "Backend Ready").reason == "NATS server not reached"
    ready = find_condition(status.conditions, "Ready")
    assert (ready.reason, ready.message) == ("BackendNotReady", "Backend Ready: connection to h:4222 refused")


@pytest.mark.parametrize(
    ("part", "type_", "want"),
    [
        ("backend", "Backend Ready", "Backend not ready"),
        ("publisher", "Publisher Proxy Ready", "Publisher proxy deployment not ready"),
        ("subscriptions", "Subscription Controller Ready", "Subscription controller not started"),
    ],
)
def test_part_without_information_has_a_reason(part, type_, want):
    status = a_status(**{part: PartCondition("Unknown")})
    assert find_condition(status.conditions, type_).reason == want


def test_serving_backend_with_config_errors_is_not_ready():
    faults = config_faults(NATS, [{"foo": 1}, {"bar": 2}])
    status = a_status(faults=faults)
    assert status.eventing_ready is False
    backend = find_condition(status.conditions, "Backend Ready")
    assert (backend.status, backend.reason) == ("False", "The provided spec.config has validation errors")
    assert backend.message == "2 errors in spec.config, see status.validationErrors"
    assert find_condition(status.conditions, "Ready").reason == "InvalidConfig"
    assert find_condition(status.conditions, "Publisher Proxy Ready").status == "True"


def test_config_errors_do_not_hide_a_failing_backend():
    faults = config_faults(NATS, [{"foo": 1}])
    status = a_status(backend=PartCondition("False", "x", "connection refused"), faults=faults)
    message = find_condition(status.conditions, "Backend Ready").message
    assert message == "1 error in spec.config, see status.validationErrors; connection refused"
