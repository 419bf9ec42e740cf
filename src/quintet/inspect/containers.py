"""The containers of a pod that have a log, and the prefix of their lines. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.apis.meta import JsonObject

_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class ContainerLog(NamedTuple):
    """The log of one container of a pod between two restarts."""

    namespace: str
    pod: str
    uid: str
    container: str
    restarts: int

    @property
    def prefix(self) -> str:
        """The prefix of its lines."""
        return f"[{self.pod}/{self.container}] "


def list_logs(pod: JsonObject) -> Iterator[ContainerLog]:
    """Yield the logs of all started containers of a pod, in start order."""
    meta, status = pod["metadata"], pod.get("status") or {}
    for field in _STATUSES:
        for each in status.get(field) or ():
            state = each.get("state") or {}
            if "running" in state or "terminated" in state or int(each.get("restartCount") or 0):
                yield ContainerLog(
                    meta.get("namespace", ""),
                    meta["name"],
                    meta.get("uid", ""),
                    each["name"],
                    int(each.get("restartCount") or 0),
                )


def waiting_containers(pod: JsonObject) -> Iterator[str]:
    """Yield the containers of a pod that have not started, with the reason."""
    status = pod.get("status") or {}
    begun = {each.container for each in list_logs(pod)}
    reasons = {
        each["name"]: ((each.get("state") or {}).get("waiting") or {}).get("reason")
        for field in _STATUSES
        for each in status.get(field) or ()
    }
    for each in (pod.get("spec") or {}).get("containers") or ():
        if each["name"] not in begun:
            reason = reasons.get(each["name"]) or "not started"
            yield f"{pod['metadata']['name']}/{each['name']}: {reason}"


def prefix_lines(source: ContainerLog, log: bytes) -> Iterator[str]:
    """Yield the lines of a log, each prefixed with its container."""
    for line in log.decode(errors="replace").splitlines():
        yield f"{source.prefix}{line}"
