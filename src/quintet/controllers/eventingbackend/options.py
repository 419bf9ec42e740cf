"""What an operator sets for backends."""

from dataclasses import dataclass, field

from quintet.apis.eventingbackend.addresses import Limits
from quintet.controllers.eventingbackend.probes import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Images, limits and names of the installation."""

    image: str
    """Of publishers and dispatchers."""
    nats_image: str
    limits: Limits
    """Which addresses users may have us connect to."""
    system_namespace: str = "quintet-system"
    account: str = "quintet-system:quintet"
    """The ServiceAccount of the operator, as `kubectl create rolebinding` takes it."""
    timing: Timing = field(default_factory=Timing)
