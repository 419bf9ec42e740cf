"""What is wanted, what serves, and who may have a stream. Pure.

What serves is read back from the status, so that it outlives a bad spec and a restart. A wanted
configuration takes its place only when its backend was found ready.
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
    entries,
    restored,
)
from quintet.apis.subscription import Subscription
from quintet.eventing.children import runs_server, server_url
from quintet.eventing.decide.choice import chosen

# What the server knows nothing of, so that it need not be asked before these are changed.
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
    """What a spec asks for."""

    faults: tuple[ConfigFault, ...]
    wanted: Effective | None
    """None while there are faults."""
    serving: Effective | None
    """None as long as nothing has been ready yet."""

    @property
    def candidate(self) -> Effective | None:
        """The configuration that is looked at: the wanted one, or with faults the one that serves."""
        return self.wanted or self.serving


def plan_of(backend: EventingBackend) -> Plan:
    """Judge the spec, and read back what serves."""
    kind, used = CATALOG.get(backend.spec.type), CATALOG.get(backend.status.backend_type)
    serving = restored(used, backend.status.effective_config) if used is not None else None
    if kind is None:
        error = f"must be one of {', '.join(CATALOG)}"
        return Plan((ConfigFault(FaultType.VALUE, "type", backend.spec.type, error),), None, serving)
    faults = config_faults(kind, backend.spec.config)
    wanted = None if faults else effective(kind, dict(entries(backend.spec.config).pairs))
    return Plan(faults, wanted, serving)


def same(one: Effective | None, other: Effective | None) -> bool:
    """Whether two configurations mean the same, wherever their values come from."""
    if one is None or other is None:
        return one is other
    return one.backend.name == other.backend.name and one.values == other.values


def proven_already(serving: Effective | None, wanted: Effective) -> bool:
    """Whether they differ only in what the server knows nothing of."""
    if serving is None or serving.backend.name != wanted.backend.name:
        return False
    names = serving.values.keys() | wanted.values.keys()
    return all(serving.values.get(name) == wanted.values.get(name) for name in names - _OF_OUR_PODS)


@dataclass(frozen=True, slots=True)
class StreamClaim:
    """A stream on a server, as one backend wants it."""

    server: str
    stream: str
    settings: tuple[object, ...]

    @property
    def place(self) -> str:
        """What only one backend can shape."""
        return f"{self.server}/{self.stream}"


def claim_of(backend: EventingBackend) -> StreamClaim | None:
    """The stream that a backend wants; None if it wants none, or has a server of its own."""
    return _claim(backend, plan_of(backend).candidate)


def held_claim(backend: EventingBackend) -> StreamClaim | None:
    """The stream that a backend has: it was let in by the server, so nobody claims what is not theirs."""
    return _claim(backend, plan_of(backend).serving)


def _claim(backend: EventingBackend, config: Effective | None) -> StreamClaim | None:
    if config is None or config.backend.key("streamName") is None or runs_server(config):
        return None
    settings = tuple(config.values.get(name) for name in _OF_STREAMS)
    return StreamClaim(server_url(backend.key, config), config.text("streamName"), settings)


def find_older_owner(backend: EventingBackend, others: Iterable[EventingBackend]) -> EventingBackend | None:
    """The oldest backend that has the same stream, if it wants it otherwise: it keeps it."""
    own = claim_of(backend)
    if own is None:
        return None
    staying = [other for other in others if not other.metadata.deleting]
    for other in sorted(staying, key=_age):
        if _age(other) >= _age(backend):
            return None
        claim = held_claim(other)
        if claim is not None and claim.place == own.place:
            return other if claim.settings != own.settings else None
    return None


def older(one: EventingBackend, other: EventingBackend) -> bool:
    """Whether the first was there before the other."""
    return _age(one) < _age(other)


def _age(backend: EventingBackend) -> tuple[str, str, str]:
    return (backend.metadata.creation_timestamp or "", backend.metadata.namespace, backend.metadata.name)


def subscriptions_using(
    backend: EventingBackend, backends: Sequence[EventingBackend], found: Iterable[Subscription]
) -> list[Subscription]:
    """The Subscriptions that use a backend, among those of its namespace."""
    return [
        each
        for each in found
        if isinstance(choice := chosen(each, backends), EventingBackend) and choice.key == backend.key
    ]
