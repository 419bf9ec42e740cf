"""EventingBackend: a typed backend for events. Types, defaults and validation."""

from quintet.apis.eventingbackend.catalog import BEB, CATALOG, NATS, Catalog
from quintet.apis.eventingbackend.effective import Effective, effective
from quintet.apis.eventingbackend.entries import entries
from quintet.apis.eventingbackend.keys import BackendType, DataType, Key
from quintet.apis.eventingbackend.readiness import PartCondition, eventing_ready, ready_now, status_of
from quintet.apis.eventingbackend.serving import effective_from_status
from quintet.apis.eventingbackend.types import (
    EVENTINGBACKEND,
    EVENTINGBACKENDS,
    ConfigFault,
    EffectiveValue,
    EventingBackend,
    EventingBackendSpec,
    EventingBackendStatus,
    FaultType,
    Origin,
    SubjectPrefixes,
)
from quintet.apis.eventingbackend.validation import config_faults, default, validate

__all__ = [
    "BEB",
    "CATALOG",
    "EVENTINGBACKEND",
    "EVENTINGBACKENDS",
    "NATS",
    "BackendType",
    "Catalog",
    "ConfigFault",
    "DataType",
    "Effective",
    "EffectiveValue",
    "EventingBackend",
    "EventingBackendSpec",
    "EventingBackendStatus",
    "FaultType",
    "Key",
    "Origin",
    "PartCondition",
    "SubjectPrefixes",
    "config_faults",
    "default",
    "effective",
    "effective_from_status",
    "entries",
    "eventing_ready",
    "ready_now",
    "status_of",
    "validate",
]
