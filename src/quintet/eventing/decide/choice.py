"""Which EventingBackend a Subscription uses. Pure; asked by the controllers of both kinds."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.subscription import Subscription

DEFAULT: Final = ("eventing.kyma-project.io/default", "true")
"""The label of the backend for Subscriptions that name none."""


class NoBackend(NamedTuple):
    """Why there is none."""

    reason: str
    message: str


def chosen(subscription: Subscription, backends: Sequence[EventingBackend]) -> EventingBackend | NoBackend:
    """The backend of a Subscription, among those of its namespace.

    Without a name it is the one labelled as the default, or the only one. While that is not clear, one
    that delivers already goes on: a second backend must not stop what works.
    """
    by_name = {backend.metadata.name: backend for backend in backends}
    wanted, namespace = subscription.spec.backend, subscription.metadata.namespace
    if wanted:
        return by_name.get(wanted) or NoBackend(
            "BackendNotFound",
            f"there is no EventingBackend '{wanted}' in namespace '{namespace}': "
            "create it or change spec.backend",
        )
    in_use = by_name.get(subscription.status.backend.name)
    staying = [backend for backend in backends if not backend.metadata.deleting]
    labelled = [backend for backend in staying if backend.metadata.labels.get(DEFAULT[0]) == DEFAULT[1]]
    if len(labelled) == 1:
        return labelled[0]
    if in_use is not None:
        return in_use
    if len(staying) == 1 and not labelled:
        return staying[0]
    return _unclear(namespace, [backend.metadata.name for backend in labelled or staying], bool(labelled))


def _unclear(namespace: str, names: Sequence[str], labelled: bool) -> NoBackend:
    if not names:
        return NoBackend(
            "BackendNotFound", f"there is no EventingBackend in namespace '{namespace}': create one"
        )
    listed = ", ".join(sorted(names))
    if labelled:
        said = f"the EventingBackends {listed} are all labelled as the default"
    else:
        said = f"there are several EventingBackends ({listed}) and none is labelled {'='.join(DEFAULT)}"
    return NoBackend("BackendUnclear", f"{said}: name one of them in spec.backend, or label exactly one")
