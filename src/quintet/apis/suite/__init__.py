"""Quintet: the controllers that run in a cluster, and their settings."""

from quintet.apis.suite.types import (
    CONTROLLERS,
    NAME,
    QUINTET,
    QUINTETS,
    ComponentStatus,
    ControllerSettings,
    Eventing,
    JsonServers,
    LogLevel,
    NetworkPolicies,
    Quintet,
    QuintetSpec,
    QuintetStatus,
    Resources,
    Topology,
    Tuning,
)

__all__ = [
    "CONTROLLERS",
    "NAME",
    "QUINTET",
    "QUINTETS",
    "ComponentStatus",
    "ControllerSettings",
    "Eventing",
    "JsonServers",
    "LogLevel",
    "NetworkPolicies",
    "Quintet",
    "QuintetSpec",
    "QuintetStatus",
    "Resources",
    "Topology",
    "Tuning",
]
