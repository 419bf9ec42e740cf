"""Watches the pods of the controllers and keeps only what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quintet.apis.meta import ObjectKey
from quintet.apis.suite import NAME, Quintet
from quintet.controllers.decide.pods import PodView
from quintet.controllers.suite.decide.installation import SELECTOR
from quintet.controllers.suite.decide.pods import ProcessPod, reduce_pod
from quintet.kube.client import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quintet.runtime.builder import Builder
    from quintet.runtime.cache import Store

_BY_PROCESS = "process"


class ProcessPods:
    """The pods of the controllers."""

    def __init__(self, builder: Builder[Quintet]) -> None:
        self._store: Store[ProcessPod] = builder.watches_reduced(
            PODS,
            PodView,
            reduce_pod,
            lambda _: (ObjectKey("", NAME),),
            labels=SELECTOR,
            indexes={_BY_PROCESS: lambda pod: (pod.process,)},
            is_relevant=_has_other_problem,
        )

    def of(self, process: str) -> Iterable[ProcessPod]:
        """Return the pods of a Deployment."""
        return self._store.by_index(_BY_PROCESS, process)


def _has_other_problem(old: ProcessPod, new: ProcessPod) -> bool:
    return (old.cause, old.restarts) != (new.cause, new.restarts)
