"""Whether the sink of a Subscription exists.

A Service of type ExternalName can point anywhere, so it cannot be a sink: events must not leave the cluster.
"""

from typing import Protocol
from urllib.parse import urlsplit

from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.apis.subscription import Subscription
from quintet.controllers.subscription.decide.status import DeliveryProblem, Reason

SERVICES = Resource("", "v1", "Service", "services")
_ELSEWHERE = "ExternalName"


class _ServiceSpec(Struct, frozen=True):
    type: str = ""


class ServiceView(Object, frozen=True):
    """The fields that are read of a Service."""

    spec: _ServiceSpec = _ServiceSpec()


class Service(Struct, frozen=True):
    """The cached part of a Service."""

    key: ObjectKey
    version: int
    elsewhere: bool

    @classmethod
    def of(cls, view: ServiceView) -> "Service":
        """Return the cached part of a Service."""
        return cls(view.key, view.version, view.spec.type == _ELSEWHERE)


class Services(Protocol):
    """Lookup of Services."""

    def get(self, key: ObjectKey) -> Service | None: ...


def sink_key(subscription: Subscription) -> ObjectKey:
    """Return the key of the Service that spec.sink names; the spec may be invalid."""
    try:
        host = urlsplit(subscription.spec.sink).hostname or ""
    except ValueError:
        host = ""
    name, _, rest = host.partition(".")
    return ObjectKey(rest.partition(".")[0], name)


def sink_problem(subscription: Subscription, services: Services) -> DeliveryProblem | None:
    """Return why the sink cannot receive events; None if it can."""
    key = sink_key(subscription)
    service = services.get(key)
    if service is None:
        return DeliveryProblem(
            Reason.SINK_NOT_FOUND,
            f"there is no Service '{key.name}' in namespace '{key.namespace}', which spec.sink refers to: "
            "create it or change spec.sink; events wait until then",
        )
    if service.elsewhere:
        return DeliveryProblem(
            Reason.SINK_LEAVES,
            f"Service '{key.name}' is of type {_ELSEWHERE}: events are delivered inside the cluster only; "
            "use a Service with pods behind it",
        )
    return None
