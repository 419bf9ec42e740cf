"""What an installation waits for: one line for the operator and each controller, with the reason. Pure."""

from collections.abc import Iterable, Mapping

from quintet.apis.meta import JsonObject
from quintet.apis.suite import Quintet
from quintet.controllers.suite.decide.pods import ProcessPod, find_cause

READY = "ready"


def describe_operator(
    deployment: JsonObject, pods: Iterable[ProcessPod], quintet: Quintet | None, version: str
) -> str:
    """Return the state of the operator, which is ready when it has observed the Quintet."""
    desired, status = deployment["spec"].get("replicas", 1), deployment.get("status") or {}
    if cause := find_cause(pods):
        return f"{status.get('readyReplicas', 0)} of {desired} pods are ready: {cause}"
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "waiting for its rollout to start"
    updated = status.get("updatedReplicas", 0)
    if updated < desired:
        return f"rolling out: {updated} of {desired} pods are updated"
    if not status.get("readyReplicas", 0):
        return f"0 of {desired} pods are ready"
    if quintet is None or not has_observed(quintet, version):
        return "waiting until it reports the status of the Quintet"
    return READY


def has_observed(quintet: Quintet, version: str) -> bool:
    """Return whether the operator of a version (if empty: of any) has observed the current Quintet."""
    current = quintet.status.observed_generation == quintet.metadata.generation
    return current and version in ("", quintet.status.version)


def describe_components(quintet: Quintet) -> dict[str, str]:
    """Return the state of each controller by its name."""
    return {
        each.name: READY if each.ready else each.message or "waiting" for each in quintet.status.components
    }


class ProgressLines:
    """Selects what has changed."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}

    def update(self, states: Mapping[str, str]) -> list[str]:
        """Return one line for each state that differs from the time before."""
        changed = [f"{name}: {state}" for name, state in states.items() if self._shown.get(name) != state]
        self._shown.update(states)
        return changed

    @property
    def remaining(self) -> str:
        """What is not ready, in one line."""
        return "; ".join(f"{name}: {state}" for name, state in self._shown.items() if state != READY)
