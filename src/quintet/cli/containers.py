"""Which containers of a pod have a log, and how its lines are marked. Pure; called by `logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject

_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class Source(NamedTuple):
    """One container of one pod, between two restarts."""

    namespace: str
    pod: str
    uid: str
    container: str
    restarts: int

    @property
    def front(self) -> str:
        """What stands in front of its lines."""
        return f"[{self.pod}/{self.container}] "


def sources(pod: JsonObject) -> Iterator[Source]:
    """The containers of a pod that have begun, in the order in which they begin."""
    meta, status = pod["metadata"], pod.get("status") or {}
    for field in _STATUSES:
        for each in status.get(field) or ():
            state = each.get("state") or {}
            if "running" in state or "terminated" in state or int(each.get("restartCount") or 0):
                yield Source(
                    meta.get("namespace", ""),
                    meta["name"],
                    meta.get("uid", ""),
                    each["name"],
                    int(each.get("restartCount") or 0),
                )


def waiting(pod: JsonObject) -> Iterator[str]:
    """The containers of a pod that have not begun, with what they wait for."""
    status = pod.get("status") or {}
    begun = {each.container for each in sources(pod)}
    reasons = {
        each["name"]: ((each.get("state") or {}).get("waiting") or {}).get("reason")
        for field in _STATUSES
        for each in status.get(field) or ()
    }
    for each in (pod.get("spec") or {}).get("containers") or ():
        if each["name"] not in begun:
            reason = reasons.get(each["name"]) or "it has not started"
            yield f"{pod['metadata']['name']}/{each['name']}: {reason}"


def marked(source: Source, log: bytes) -> Iterator[str]:
    """The lines of a log, each with its container in front."""
    for line in log.decode(errors="replace").splitlines():
        yield f"{source.front}{line}"
