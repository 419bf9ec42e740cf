"""The controllers that a process can run, one entry each. A new kind is added here and nowhere else.

Read by `cli.run`, which starts them, and by `manifests`, which grants them their rights.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from quintet.admission import casconfig as casconfig_admission
from quintet.admission import checkup as checkup_admission
from quintet.admission import eventingbackend as eventingbackend_admission
from quintet.admission import jsonserver as jsonserver_admission
from quintet.admission import statefulcluster as statefulcluster_admission
from quintet.admission import subscription as subscription_admission
from quintet.admission.eventingbackend import ConfigErrors
from quintet.admission.review import Admission
from quintet.apis.casconfig import CASCONFIG
from quintet.apis.checkup import CHECKUP
from quintet.apis.eventingbackend import EVENTINGBACKEND
from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.resources import CustomResource
from quintet.apis.statefulcluster import STATEFULCLUSTER
from quintet.apis.subscription import SUBSCRIPTION
from quintet.clock import Clock
from quintet.controllers.casconfig import controller as casconfig
from quintet.controllers.casconfig import rbac as casconfig_rbac
from quintet.controllers.checkup import controller as checkup
from quintet.controllers.checkup import rbac as checkup_rbac
from quintet.controllers.eventingbackend import controller as eventingbackend
from quintet.controllers.eventingbackend import rbac as eventingbackend_rbac
from quintet.controllers.eventingbackend.options import Options as EventingOptions
from quintet.controllers.jsonserver import controller as jsonserver
from quintet.controllers.jsonserver import rbac as jsonserver_rbac
from quintet.controllers.jsonserver.served_data import read_over_http
from quintet.controllers.permissions import OptionalRole, Permission, UserRequirement
from quintet.controllers.statefulcluster import controller as statefulcluster
from quintet.controllers.statefulcluster import rbac as statefulcluster_rbac
from quintet.controllers.subscription import controller as subscription
from quintet.controllers.subscription import rbac as subscription_rbac
from quintet.eventing import discovery
from quintet.eventing.sessions import Sessions
from quintet.runtime.manager import Manager

INSTANCE = "quintet"
"""What a process is called unless it is told otherwise: its lease, its account, its webhooks."""


def webhook_service(instance: str) -> str:
    """The Service through which the processes of one name are asked by the API server."""
    return f"{instance}-webhooks"


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator sets for the controllers of a process."""

    json_server_image: str
    workers: int = 8
    eventing_config_errors: ConfigErrors = ConfigErrors.WARN
    discovery_address: tuple[str, int] = ("127.0.0.1", 8082)
    eventing: EventingOptions | None = None
    """What backends are made of; without it the component eventing cannot be started."""
    system_namespace: str = ""
    """Where the process itself lives, if it is known; configs keep away from it."""


@dataclass(frozen=True, slots=True)
class Component:
    """One controller: its kinds, how it is started, what it admits, what it may do and demands."""

    name: str
    kinds: tuple[CustomResource, ...]
    start: Callable[[Manager, Settings], None]
    admissions: tuple[Admission, ...]
    permissions: tuple[Permission, ...]
    user_requirements: tuple[UserRequirement, ...] = ()
    optional_roles: tuple[OptionalRole, ...] = ()
    """Roles that it can do with, where an administrator binds them."""
    admit: Callable[[Settings], tuple[Admission, ...]] | None = None
    """Admissions that depend on what an operator set; those that do not are in `admissions`."""
    serve: Callable[[Settings, Clock], AbstractAsyncContextManager[int]] | None = None
    """What every replica serves beside its webhooks, while inside; gives the port."""


def _start_jsonserver(manager: Manager, settings: Settings) -> None:
    image, workers = settings.json_server_image, settings.workers
    jsonserver.build(manager, image=image, read_back=read_over_http, workers=workers)


def _start_checkup(manager: Manager, settings: Settings) -> None:
    checkup.build(manager, workers=settings.workers)


def _start_statefulcluster(manager: Manager, settings: Settings) -> None:
    statefulcluster.build(manager, workers=settings.workers)


def _start_casconfig(manager: Manager, settings: Settings) -> None:
    casconfig.build(manager, operator=settings.system_namespace, workers=settings.workers)


def _start_eventing(manager: Manager, settings: Settings) -> None:
    if settings.eventing is None:
        raise ValueError("the component eventing needs settings of its own")
    sessions = Sessions(manager.clock)
    # They wait for servers of others: some that do not answer must not hold up those that do.
    waiting = 4 * settings.workers
    eventingbackend.build(manager, options=settings.eventing, sessions=sessions, workers=waiting)
    subscription.build(manager, sessions=sessions, workers=settings.workers)


def _admit_eventing(settings: Settings) -> tuple[Admission, ...]:
    backends = eventingbackend_admission.admissions(settings.eventing_config_errors)
    return (*backends, subscription_admission.ADMISSION)


def _serve_discovery(settings: Settings, clock: Clock) -> AbstractAsyncContextManager[int]:
    return discovery.serve(*settings.discovery_address, clock)


# The one list: commands, definitions, roles and policies all follow from it.
COMPONENTS = {
    component.name: component
    for component in (
        Component(
            "jsonserver",
            (JSONSERVER,),
            _start_jsonserver,
            (jsonserver_admission.ADMISSION,),
            jsonserver_rbac.PERMISSIONS,
            jsonserver_rbac.USER_REQUIREMENTS,
        ),
        Component(
            "checkup",
            (CHECKUP,),
            _start_checkup,
            (checkup_admission.ADMISSION,),
            checkup_rbac.PERMISSIONS,
            checkup_rbac.USER_REQUIREMENTS,
        ),
        Component(
            "casconfig",
            (CASCONFIG,),
            _start_casconfig,
            (casconfig_admission.ADMISSION,),
            casconfig_rbac.PERMISSIONS,
            casconfig_rbac.USER_REQUIREMENTS,
            casconfig_rbac.OPTIONAL_ROLES,
        ),
        Component(
            "statefulcluster",
            (STATEFULCLUSTER,),
            _start_statefulcluster,
            (statefulcluster_admission.ADMISSION,),
            statefulcluster_rbac.PERMISSIONS,
            statefulcluster_rbac.USER_REQUIREMENTS,
        ),
        Component(
            "eventing",
            (EVENTINGBACKEND, SUBSCRIPTION),
            _start_eventing,
            (),
            (*eventingbackend_rbac.PERMISSIONS, *subscription_rbac.PERMISSIONS),
            eventingbackend_rbac.USER_REQUIREMENTS,
            optional_roles=eventingbackend_rbac.OPTIONAL_ROLES,
            admit=_admit_eventing,
            serve=_serve_discovery,
        ),
    )
}
CUSTOM_RESOURCES = tuple(kind for component in COMPONENTS.values() for kind in component.kinds)
