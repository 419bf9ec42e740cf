"""When the consumers of a backend go with it."""

import msgspec
import pytest

from quintet.apis.eventingbackend import (
    NATS,
    EventingBackend,
    EventingBackendSpec,
    EventingBackendStatus,
    effective,
)
from quintet.apis.meta import ObjectMeta
from quintet.controllers.subscription.writer import removes_consumers

OWN, ELSEWHERE = {}, {"url": "nats://nats.other.svc:4222"}


def a_backend(config, *, deleting=True):
    backend = EventingBackend(
        metadata=ObjectMeta(
            name="main", namespace="shop", deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None
        ),
        spec=EventingBackendSpec(type="nats"),
    )
    if config is None:
        return backend
    shown = EventingBackendStatus(
        backend_type="nats", effective_config=tuple(effective(NATS, config).entries())
    )
    return msgspec.structs.replace(backend, status=shown)


@pytest.mark.parametrize(
    ("backend", "want"),
    [
        pytest.param(a_backend(OWN), True, id="with the server that is run for it"),
        pytest.param(a_backend(None), True, id="it never had a server"),
        pytest.param(a_backend(ELSEWHERE), False, id="the server of somebody else stays"),
        pytest.param(a_backend(OWN, deleting=False), False, id="it stays"),
    ],
)
def test_deleted_backend_removes_its_consumers_only_with_its_own_server(backend, want):
    assert removes_consumers(backend) is want
