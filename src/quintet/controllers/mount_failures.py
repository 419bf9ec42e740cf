"""Watches the FailedMount Events of pods: no field of a pod tells that a volume cannot be mounted."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.apis.text import truncate
from quintet.controllers.decide.causes import LONGEST_MESSAGE
from quintet.runtime import handlers
from quintet.runtime.builder import Builder, decoder
from quintet.runtime.cache import Store
from quintet.runtime.manager import Manager
from quintet.runtime.watch import Selection

EVENTS: Final = Resource("", "v1", "Event", "events")
FIELDS: Final = "involvedObject.kind=Pod,reason=FailedMount"
_BY_POD = "pod"


class _About(Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Event(Object, frozen=True):
    involved_object: _About = _About()
    message: str = ""


class MountFailure(Struct, frozen=True):
    """A FailedMount Event."""

    key: ObjectKey
    version: int
    pod: ObjectKey
    pod_uid: str
    message: str


class MountFailures:
    """The FailedMount Events that the API server still has."""

    def __init__(
        self, builder: Builder[Any], manager: Manager, to: Callable[[MountFailure], Iterable[ObjectKey]]
    ) -> None:
        self._store: Store[MountFailure] = Store({_BY_POD: lambda failure: (failure.pod_uid,)})
        decode = decoder(_Event)
        manager.add_watch(Selection(EVENTS, lambda raw: _reduce(decode(raw)), fields=FIELDS), self._store)
        # A repetition changes only the count and the times.
        self._store.subscribe(
            handlers.enqueue(builder.queue, to, lambda old, new: old.message != new.message)
        )

    def messages(self, pod_uid: str) -> list[str]:
        """Return why volumes of a pod cannot be mounted, if possible without the summaries of the kubelet."""
        found = sorted({failure.message for failure in self._store.by_index(_BY_POD, pod_uid)})
        causes = [message for message in found if not message.startswith("Unable to attach or mount volumes")]
        return causes or found


def _reduce(event: _Event) -> MountFailure:
    about = event.involved_object
    pod = ObjectKey(event.metadata.namespace, about.name)
    return MountFailure(event.key, event.version, pod, about.uid, truncate(event.message, LONGEST_MESSAGE))
