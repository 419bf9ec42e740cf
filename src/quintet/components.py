"""The controllers that a process can run: one `Component` per controller name in the registry of kinds."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from quintet import kinds
from quintet.apis.eventingbackend.types import ConfigErrors

if TYPE_CHECKING:
    from quintet.admission.review import Admission
    from quintet.apis.resources import CustomResource
    from quintet.clock import Clock
    from quintet.controllers.eventingbackend.options import Options as EventingOptions
    from quintet.controllers.permissions import OptionalRole, Permission, UserRequirement
    from quintet.runtime.manager import Manager

INSTANCE = "quintet"
"""The default instance name of a process: of its Lease, ServiceAccount and webhook configurations."""


def webhook_service(instance: str) -> str:
    """Return the name of the Service of an instance's webhooks."""
    return f"{instance}-webhooks"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a process for its controllers."""

    json_server_image: str
    workers: int = 8
    eventing_config_errors: ConfigErrors = ConfigErrors.WARN
    discovery_address: tuple[str, int] = ("127.0.0.1", 8082)
    eventing: "EventingOptions | None" = None
    """Required by the component eventing."""
    system_namespace: str = ""
    """The namespace of the process, if known; CASConfigs do not change objects in it."""


@dataclass(frozen=True)
class Component:
    """The controllers of one controller name, with the kinds that they reconcile.

    Parts are imported on first use, so that a process only imports the controllers that it runs.
    """

    name: str
    descriptors: tuple[kinds.Kind, ...]

    @cached_property
    def kinds(self) -> "tuple[CustomResource, ...]":
        """The declarations of its kinds."""
        return tuple(kinds.load(kind.declaration) for kind in self.descriptors)

    @property
    def permissions(self) -> "tuple[Permission, ...]":
        """The RBAC permissions that it needs."""
        return self._load_rbac("PERMISSIONS")

    @property
    def user_requirements(self) -> "tuple[UserRequirement, ...]":
        """The permissions that users must have to set some fields."""
        return self._load_rbac("USER_REQUIREMENTS")

    @property
    def optional_roles(self) -> "tuple[OptionalRole, ...]":
        """The ClusterRoles that administrators may bind to it."""
        return self._load_rbac("OPTIONAL_ROLES")

    @property
    def has_webhooks(self) -> bool:
        """Whether any of its kinds has webhooks."""
        return any(kind.admission for kind in self.descriptors)

    @property
    def has_server(self) -> bool:
        """Whether `serve` serves anything."""
        return any(kind.serve for kind in self.descriptors)

    def start(self, manager: "Manager", settings: Settings) -> None:
        """Add its controllers to a manager."""
        for start in self._load(kind.start for kind in self.descriptors):
            start(manager, settings)

    def admissions(self, settings: Settings) -> "tuple[Admission, ...]":
        """Return the webhooks of its kinds."""
        found: list[Admission] = []
        for kind in self.descriptors:
            if kind.configured_admissions:
                found += kinds.load(kind.configured_admissions)(settings)
            elif kind.admission:
                found.append(kinds.load(kind.admission))
        return tuple(found)

    def serve(self, settings: Settings, clock: "Clock") -> list[AbstractAsyncContextManager[int]]:
        """Return what each replica serves besides its webhooks, as context managers that yield a port."""
        return [serve(settings, clock) for serve in self._load(kind.serve for kind in self.descriptors)]

    def _load_rbac(self, name: str) -> tuple[Any, ...]:
        modules = self._load(kind.rbac for kind in self.descriptors)
        return tuple(each for module in modules for each in getattr(module, name, ()))

    def _load(self, references: Iterable[str]) -> list[Any]:
        return [kinds.load(reference) for reference in references if reference]


def start_jsonserver(manager: "Manager", settings: Settings) -> None:
    """Add the controller of JsonServers."""
    from quintet.controllers.jsonserver import controller
    from quintet.controllers.jsonserver.served_data import read_over_http

    controller.build(
        manager, image=settings.json_server_image, read_back=read_over_http, workers=settings.workers
    )


def start_checkup(manager: "Manager", settings: Settings) -> None:
    """Add the controller of Checkups."""
    from quintet.controllers.checkup import controller

    controller.build(manager, workers=settings.workers)


def start_statefulcluster(manager: "Manager", settings: Settings) -> None:
    """Add the controller of StatefulClusters."""
    from quintet.controllers.statefulcluster import controller

    controller.build(manager, workers=settings.workers)


def start_casconfig(manager: "Manager", settings: Settings) -> None:
    """Add the controller of CASConfigs."""
    from quintet.controllers.casconfig import controller

    controller.build(manager, operator=settings.system_namespace, workers=settings.workers)


def start_eventing(manager: "Manager", settings: Settings) -> None:
    """Add the controllers of EventingBackends and Subscriptions, which share connections to NATS."""
    from quintet.controllers.eventingbackend import controller as eventingbackend
    from quintet.controllers.subscription import controller as subscription
    from quintet.eventing.sessions import Sessions

    if settings.eventing is None:
        raise ValueError("the component eventing needs Settings.eventing")
    sessions = Sessions(manager.clock)
    # These workers wait for external servers: slow servers must not block backends with fast ones.
    waiting = 4 * settings.workers
    eventingbackend.build(manager, options=settings.eventing, sessions=sessions, workers=waiting)
    subscription.build(manager, sessions=sessions, workers=settings.workers)


def eventingbackend_admissions(settings: Settings) -> "tuple[Admission, ...]":
    """Return the webhooks of EventingBackends for the configured treatment of errors."""
    from quintet.admission.eventingbackend import admissions

    return admissions(settings.eventing_config_errors)


def serve_discovery(settings: Settings, clock: "Clock") -> AbstractAsyncContextManager[int]:
    """Serve the discovery API of backend types."""
    from quintet.eventing import discovery

    return discovery.serve(*settings.discovery_address, clock)


COMPONENTS = {
    name: Component(name, tuple(kind for kind in kinds.all_kinds() if kind.component == name))
    for name in kinds.component_names()
}
CUSTOM_RESOURCES = tuple(kind for component in COMPONENTS.values() for kind in component.kinds)
