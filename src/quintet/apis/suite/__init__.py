"""Quintet: which controllers run in a cluster, and how. What an administrator writes."""

from quintet.apis.suite.types import (
    CONTROLLERS,
    NAME,
    QUINTET,
    QUINTETS,
    ComponentStatus,
    Eventing,
    JsonServers,
    LogLevel,
    NetworkPolicies,
    Quintet,
    QuintetSpec,
    QuintetStatus,
    Resources,
    Settings,
    Topology,
    Tuning,
)

__all__ = [
    "CONTROLLERS",
    "NAME",
    "QUINTET",
    "QUINTETS",
    "ComponentStatus",
    "Eventing",
    "JsonServers",
    "LogLevel",
    "NetworkPolicies",
    "Quintet",
    "QuintetSpec",
    "QuintetStatus",
    "Resources",
    "Settings",
    "Topology",
    "Tuning",
]
