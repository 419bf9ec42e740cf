"""Observed pods and claims of a StatefulCluster for unit tests."""

from typing import Any

from quintet.apis.meta import ObjectKey
from quintet.controllers.statefulcluster.decide.observed import Claim, DesiredState, Observed, Pod

NOW = 1_900_000_000.0
OLD, NEW = "web-old", "web-new"


def a_pod(name: str, **changes: Any) -> Pod:
    """A pod of the newest revision that has been ready for an hour, with claims named after it."""
    given: dict[str, Any] = {
        "key": ObjectKey("shop", f"web-{name}"),
        "uid": f"uid-{name}",
        "revision": NEW,
        "group": name,
        "ready": True,
        "created": NOW - 3600,
        "ready_since": NOW - 3600,
        "started_at": NOW - 3600,
    }
    return Pod(**{**given, **changes})


def pending(name: str, **changes: Any) -> Pod:
    given: dict[str, Any] = {
        "phase": "Pending",
        "ready": False,
        "created": NOW - 2,
        "ready_since": 0.0,
        "started_at": 0.0,
    }
    return a_pod(name, **{**given, **changes})


def not_ready(name: str, seconds: float, **changes: Any) -> Pod:
    return a_pod(name, **{"ready": False, "ready_since": NOW - seconds, **changes})


def leaving(name: str, seconds_left: float = 20.0, **changes: Any) -> Pod:
    return a_pod(name, leaves_by=NOW + seconds_left, **changes)


def a_claim(group: str, **changes: Any) -> Claim:
    given: dict[str, Any] = {
        "key": ObjectKey("shop", f"data-web-{group}"),
        "uid": f"uid-data-{group}",
        "cluster": "web",
        "group": group,
        "template": "data",
        "created": NOW - 7200,
    }
    return Claim(**{**given, **changes})


def seen(
    *pods: Pod,
    replicas: int = 3,
    claims: list[Claim] | None = None,
    free: tuple[str, ...] = (),
    want: dict[str, Any] | None = None,
    **changes: Any,
) -> Observed:
    """An observed StatefulCluster with pods and their claims; `free` lists unused claim groups."""
    wanted: dict[str, Any] = {"replicas": replicas, "templates": ("data",), **(want or {})}
    if claims is None:
        claims = [a_claim(pod.group) for pod in pods] + [a_claim(group) for group in free]
    given: dict[str, Any] = {"now": NOW, "update_revision": NEW, "current_revision": NEW}
    return Observed(
        **{**given, "spec": DesiredState(**wanted), "pods": pods, "claims": tuple(claims), **changes}
    )
