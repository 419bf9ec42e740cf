"""Whether the sink of a Subscription is there. Pure.

Of every Service only its type is kept. One of type ExternalName leads to any name in the world, so a
sink must not be one: events of a namespace do not leave it that way.
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
    """What is read of a Service."""

    spec: _ServiceSpec = _ServiceSpec()


class Service(Struct, frozen=True):
    """What is kept of a Service."""

    key: ObjectKey
    version: int
    elsewhere: bool

    @classmethod
    def of(cls, view: ServiceView) -> "Service":
        """The little that matters."""
        return cls(view.key, view.version, view.spec.type == _ELSEWHERE)


class Services(Protocol):
    """Where Services are looked up."""

    def get(self, key: ObjectKey) -> Service | None:
        """One Service, if it is there."""
        ...


def sink_key(subscription: Subscription) -> ObjectKey:
    """The Service that a sink means; the spec may still be wrong."""
    try:
        host = urlsplit(subscription.spec.sink).hostname or ""
    except ValueError:
        host = ""
    name, _, rest = host.partition(".")
    return ObjectKey(rest.partition(".")[0], name)


def sink_problem(subscription: Subscription, services: Services) -> DeliveryProblem | None:
    """Why a sink cannot be reached; None if its Service is there."""
    key = sink_key(subscription)
    service = services.get(key)
    if service is None:
        return DeliveryProblem(
            Reason.SINK_NOT_FOUND,
            f"there is no Service '{key.name}' in namespace '{key.namespace}', which spec.sink names: "
            "create it or change spec.sink; events wait until then",
        )
    if service.elsewhere:
        return DeliveryProblem(
            Reason.SINK_LEAVES,
            f"Service '{key.name}' is of type {_ELSEWHERE}: events are delivered inside the cluster only; "
            "use a Service with pods behind it",
        )
    return None
