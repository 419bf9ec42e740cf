"""Watches the pods of JsonServers and keeps only why they do not run."""

from collections.abc import Iterable, Iterator

from quintet.apis.jsonserver import JsonServer
from quintet.apis.jsonserver.validation import SELECTOR_LABEL
from quintet.apis.meta import ObjectKey, Struct
from quintet.controllers.decide.causes import Cause, cause_of_mount, cause_of_pod
from quintet.controllers.decide.pods import PodView
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.mount_failures import MountFailure, MountFailures
from quintet.kube.client import PODS
from quintet.runtime import handlers
from quintet.runtime.builder import Builder, decoder
from quintet.runtime.cache import Store
from quintet.runtime.manager import Manager
from quintet.runtime.watch import Selection

_BY_SERVER = "server"


class ServerPod(Struct, frozen=True):
    """The cached part of a pod."""

    key: ObjectKey
    version: int
    uid: str
    server: str
    """The name of its JsonServer; empty if no Deployment of one created it."""
    starting: bool
    """Whether a container waits for its volumes or its image."""
    cause: Cause | None


class ServerPods:
    """The pods of JsonServers."""

    def __init__(self, builder: Builder[JsonServer], manager: Manager) -> None:
        self._store: Store[ServerPod] = Store({_BY_SERVER: lambda pod: map(str, _server(pod))})
        decode = decoder(PodView)
        manager.add_watch(
            Selection(PODS, lambda raw: _reduce(decode(raw)), labels=desired.SELECTOR),
            self._store,
        )
        self._store.subscribe(handlers.enqueue(builder.queue, _server, _has_other_cause))
        self._mounts = MountFailures(builder, manager, self._servers_of)

    def causes(self, server: ObjectKey) -> list[Cause]:
        """Return why pods of a JsonServer do not run, as far as it is known."""
        return [cause for pod in self._store.by_index(_BY_SERVER, str(server)) for cause in self._causes(pod)]

    def _causes(self, pod: ServerPod) -> Iterator[Cause]:
        if pod.cause is not None:
            yield pod.cause
        elif pod.starting:
            yield from map(cause_of_mount, self._mounts.messages(pod.uid))

    def _servers_of(self, failure: MountFailure) -> Iterable[ObjectKey]:
        pod = self._store.get(failure.pod)
        return _server(pod) if pod is not None and pod.uid == failure.pod_uid else ()


def _reduce(pod: PodView) -> ServerPod:
    meta = pod.metadata
    name = meta.labels.get(SELECTOR_LABEL, "")
    made = any(
        owner.controller and owner.kind == "ReplicaSet" and owner.name.rpartition("-")[0] == name
        for owner in meta.owner_references
    )
    ends = meta.deleting or pod.has_ended
    return ServerPod(
        key=pod.key,
        version=pod.version,
        uid=meta.uid,
        server=name if made else "",
        starting=not ends and any(container.state.waiting is not None for container in pod.containers),
        cause=None if ends else cause_of_pod(pod),
    )


def _server(pod: ServerPod) -> Iterable[ObjectKey]:
    return (ObjectKey(pod.key.namespace, pod.server),) if pod.server else ()


def _has_other_cause(old: ServerPod, new: ServerPod) -> bool:
    return (old.cause, old.starting) != (new.cause, new.starting)
