"""The desired and the serving configuration of a backend, and which server belongs to it.

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
    SubjectPrefixes,
    config_faults,
    effective,
    effective_from_status,
    entries,
)
from quintet.apis.eventingbackend.addresses import parse_endpoint
from quintet.apis.eventingbackend.types import MOST_FORMER
from quintet.apis.subscription import Subscription
from quintet.controllers.eventingbackend.decide.probe_result import TOO_MANY_MOVES, ProbeResult
from quintet.eventing.children import SERVER, child_name, runs_server, server_url
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


def config_in_use(
    backend: EventingBackend, found: Plan, result: ProbeResult
) -> tuple[Effective | None, ProbeResult]:
    """Return the configuration to use, and the result of its probe."""
    wanted, serving = found.wanted, found.serving
    if wanted is None or not (result.usable or proven_already(serving, wanted)):
        return serving, result
    if len(former_subjects(backend, wanted)) > MOST_FORMER:
        return serving, TOO_MANY_MOVES
    return wanted, result


def former_subjects(backend: EventingBackend, in_use: Effective | None) -> tuple[SubjectPrefixes, ...]:
    """Return the prefixes, other than the current ones, with which the stream in use may have events."""
    serving = plan_of(backend).serving
    if serving is None or in_use is None or not same_stream(backend, serving, in_use):
        return ()
    known = (*backend.status.former_subjects, serving.subject_prefixes)
    return tuple(each for each in dict.fromkeys(known) if each != in_use.subject_prefixes)


def same_stream(backend: EventingBackend, one: Effective, other: Effective) -> bool:
    """Return whether two configurations use the same stream on the same server."""
    places = [
        (server_url(backend.key, each), each.text("streamName"))
        for each in (one, other)
        if each.backend.key("streamName") is not None
    ]
    return len(places) == 2 and places[0] == places[1]


def own_servers(backend: EventingBackend) -> set[str]:
    """Return the Service of the NATS server that the operator runs for a backend, as `name.namespace`."""
    plan = plan_of(backend)
    runs = any(config is not None and runs_server(config) for config in (plan.candidate, plan.serving))
    return {f"{child_name(backend.metadata.name, SERVER)}.{backend.metadata.namespace}"} if runs else set()


def named_services(backend: EventingBackend, config: Effective) -> list[str]:
    """Return the Services that `url` may name, as `name.namespace`; empty if the operator runs the server.

    A host is a Service or a pod of a headless Service, with or without the domain of the cluster.
    """
    if config.backend.key("url") is None or runs_server(config):
        return []
    labels = parse_endpoint(server_url(backend.key, config)).host.lower().rstrip(".").split(".")
    starts = (labels[index : index + 3] for index in (0, 1))
    return [".".join(start[:2]) for start in starts if len(start) >= 2 and start[2:] in ([], ["svc"])]


def subscriptions_using(
    backend: EventingBackend, backends: Sequence[EventingBackend], found: Iterable[Subscription]
) -> list[Subscription]:
    """Return the Subscriptions that use a backend."""
    return [
        each
        for each in found
        if isinstance(choice := choose_backend(each, backends), EventingBackend) and choice.key == backend.key
    ]
