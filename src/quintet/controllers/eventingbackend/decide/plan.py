"""The desired and the serving configuration of a backend, and who owns a stream.

The serving configuration is read from the status, so that it survives an invalid spec and a restart. The
desired one replaces it only after its backend was probed successfully.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quintet.apis.eventingbackend import (
    CATALOG,
    ConfigFault,
    Effective,
    EventingBackend,
    FaultType,
    config_faults,
    effective,
    effective_from_status,
    entries,
)
from quintet.apis.subscription import Subscription
from quintet.eventing.children import runs_server, server_url
from quintet.eventing.decide.choice import choose_backend

# Settings that do not concern the server: they can change without another probe.
_OF_OUR_PODS: Final = frozenset(
    {
        "consumerDeliverPolicy",
        "dispatcherReplicas",
        "eventTypePrefix",
        "maxInFlightMessages",
        "maxReconnects",
        "publisherReplicas",
        "publisherRequestTimeout",
        "qos",
        "reconnectWait",
        "webhookActivationTimeout",
    }
)
_OF_STREAMS: Final = (
    "streamName",
    "streamSubjectPrefix",
    "streamStorageType",
    "streamReplicas",
    "retentionPolicy",
    "discardPolicy",
    "maxMessages",
    "maxBytes",
    "maxMessagesPerSubject",
    "deadLetterSubject",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of evaluating a spec."""

    faults: tuple[ConfigFault, ...]
    wanted: Effective | None
    """None if the spec has errors."""
    serving: Effective | None
    """None until a configuration has been ready."""

    @property
    def candidate(self) -> Effective | None:
        """The configuration to probe: the desired one, or the serving one if the spec has errors."""
        return self.wanted or self.serving


def plan_of(backend: EventingBackend) -> Plan:
    """Validate the spec, and read the serving configuration from the status."""
    kind, used = CATALOG.get(backend.spec.type), CATALOG.get(backend.status.backend_type)
    serving = effective_from_status(used, backend.status.effective_config) if used is not None else None
    if kind is None:
        error = f"must be one of {', '.join(CATALOG)}"
        return Plan((ConfigFault(FaultType.VALUE, "type", backend.spec.type, error),), None, serving)
    faults = config_faults(kind, backend.spec.config)
    wanted = None if faults else effective(kind, dict(entries(backend.spec.config).pairs))
    return Plan(faults, wanted, serving)


def same(one: Effective | None, other: Effective | None) -> bool:
    """Return whether two configurations have equal values."""
    if one is None or other is None:
        return one is other
    return one.backend.name == other.backend.name and one.values == other.values


def proven_already(serving: Effective | None, wanted: Effective) -> bool:
    """Return whether the configurations differ only in settings that do not concern the server."""
    if serving is None or serving.backend.name != wanted.backend.name:
        return False
    names = serving.values.keys() | wanted.values.keys()
    return all(serving.values.get(name) == wanted.values.get(name) for name in names - _OF_OUR_PODS)


@dataclass(frozen=True, slots=True)
class StreamClaim:
    """A stream on a server, with the settings that a backend desires."""

    server: str
    stream: str
    settings: tuple[object, ...]

    @property
    def location(self) -> str:
        """Key of the stream; only one backend can configure it."""
        return f"{self.server}/{self.stream}"


def claim_of(backend: EventingBackend) -> StreamClaim | None:
    """Return the stream that a backend desires; None if it needs none or has its own server."""
    return _claim(backend, plan_of(backend).candidate)


def held_claim(backend: EventingBackend) -> StreamClaim | None:
    """Return the stream that a backend uses already; its server has accepted the login."""
    return _claim(backend, plan_of(backend).serving)


def _claim(backend: EventingBackend, config: Effective | None) -> StreamClaim | None:
    if config is None or config.backend.key("streamName") is None or runs_server(config):
        return None
    settings = tuple(config.values.get(name) for name in _OF_STREAMS)
    return StreamClaim(server_url(backend.key, config), config.text("streamName"), settings)


def find_older_owner(backend: EventingBackend, others: Iterable[EventingBackend]) -> EventingBackend | None:
    """Return the oldest backend that uses the same stream with other settings: it keeps the stream."""
    own = claim_of(backend)
    if own is None:
        return None
    staying = [other for other in others if not other.metadata.deleting]
    for other in sorted(staying, key=_age):
        if _age(other) >= _age(backend):
            return None
        claim = held_claim(other)
        if claim is not None and claim.location == own.location:
            return other if claim.settings != own.settings else None
    return None


def older(one: EventingBackend, other: EventingBackend) -> bool:
    """Return whether the first backend was created before the other."""
    return _age(one) < _age(other)


def _age(backend: EventingBackend) -> tuple[str, str, str]:
    return (backend.metadata.creation_timestamp or "", backend.metadata.namespace, backend.metadata.name)


def subscriptions_using(
    backend: EventingBackend, backends: Sequence[EventingBackend], found: Iterable[Subscription]
) -> list[Subscription]:
    """Return the Subscriptions that use a backend."""
    return [
        each
        for each in found
        if isinstance(choice := choose_backend(each, backends), EventingBackend) and choice.key == backend.key
    ]
