"""Settings of the EventingBackend controller."""

from dataclasses import dataclass, field

from quintet.apis.eventingbackend.addresses import NetworkLimits
from quintet.controllers.eventingbackend.probes import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Images, limits and names of the installation."""

    image: str
    """Image of publishers and dispatchers."""
    nats_image: str
    limits: NetworkLimits
    """Addresses that users may have the operator connect to."""
    system_namespace: str = "quintet-system"
    account: str = "quintet-system:quintet"
    """ServiceAccount of the operator, as `kubectl create rolebinding` expects it."""
    timing: Timing = field(default_factory=Timing)
