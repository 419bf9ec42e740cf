"""Chooses the EventingBackend of a Subscription. Pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.subscription import Subscription

DEFAULT: Final = ("eventing.kyma-project.io/default", "true")
"""The label of the default backend, for Subscriptions without `spec.backend`."""


class NoBackend(NamedTuple):
    """Why a Subscription has no backend."""

    reason: str
    message: str


def choose_backend(
    subscription: Subscription, backends: Sequence[EventingBackend]
) -> EventingBackend | NoBackend:
    """Return the backend of a Subscription among those of its namespace.

    Without `spec.backend` it is the one with the default label, or the only one. While that is ambiguous, the
    backend in use is kept, so that creating a second backend does not stop deliveries.
    """
    by_name = {backend.metadata.name: backend for backend in backends}
    name, namespace = subscription.spec.backend, subscription.metadata.namespace
    if name:
        return by_name.get(name) or NoBackend(
            "BackendNotFound",
            f"there is no EventingBackend '{name}' in namespace '{namespace}': "
            "create it or change spec.backend",
        )
    in_use = by_name.get(subscription.status.backend.name)
    remaining = [backend for backend in backends if not backend.metadata.deleting]
    labelled = [backend for backend in remaining if backend.metadata.labels.get(DEFAULT[0]) == DEFAULT[1]]
    if len(labelled) == 1:
        return labelled[0]
    if in_use is not None:
        return in_use
    if len(remaining) == 1 and not labelled:
        return remaining[0]
    return _ambiguous(namespace, [backend.metadata.name for backend in labelled or remaining], bool(labelled))


def _ambiguous(namespace: str, names: Sequence[str], labelled: bool) -> NoBackend:
    if not names:
        return NoBackend(
            "BackendNotFound", f"there is no EventingBackend in namespace '{namespace}': create one"
        )
    listed = ", ".join(sorted(names))
    if labelled:
        problem = f"the EventingBackends {listed} are all labelled as the default"
    else:
        problem = f"there are several EventingBackends ({listed}) and none is labelled {'='.join(DEFAULT)}"
    return NoBackend("BackendUnclear", f"{problem}: name one of them in spec.backend, or label exactly one")
