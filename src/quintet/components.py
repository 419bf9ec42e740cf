"""The controllers that a process can run, one entry each. A new kind is added here and nowhere else.

Read by `cli.run`, which starts them, and by `manifests`, which grants them their rights.
"""

from collections.abc import Callable
from dataclasses import dataclass

from quintet.admission import checkup as checkup_admission
from quintet.admission import jsonserver as jsonserver_admission
from quintet.admission import statefulcluster as statefulcluster_admission
from quintet.admission.review import Admission
from quintet.apis.checkup import CHECKUP
from quintet.apis.jsonserver import JSONSERVER
from quintet.apis.resources import CustomResource
from quintet.apis.statefulcluster import STATEFULCLUSTER
from quintet.controllers.checkup import controller as checkup
from quintet.controllers.checkup import rbac as checkup_rbac
from quintet.controllers.jsonserver import controller as jsonserver
from quintet.controllers.jsonserver import rbac as jsonserver_rbac
from quintet.controllers.jsonserver.readback import over_http
from quintet.controllers.rights import Demand, Right
from quintet.controllers.statefulcluster import controller as statefulcluster
from quintet.controllers.statefulcluster import rbac as statefulcluster_rbac
from quintet.runtime.manager import Manager

# Names that a process and the roles and Services of its installation must agree on.
WEBHOOK_SERVICE = "quintet-webhooks"
LEASE = "quintet"


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator sets for the controllers of a process."""

    json_server_image: str
    workers: int = 8


@dataclass(frozen=True, slots=True)
class Component:
    """One controller: its kinds, how it is started, what it admits, what it may do and demands."""

    name: str
    kinds: tuple[CustomResource, ...]
    start: Callable[[Manager, Settings], None]
    admissions: tuple[Admission, ...]
    rights: tuple[Right, ...]
    demands: tuple[Demand, ...] = ()


def _start_jsonserver(manager: Manager, settings: Settings) -> None:
    image, workers = settings.json_server_image, settings.workers
    jsonserver.build(manager, image=image, read_back=over_http, workers=workers)


def _start_checkup(manager: Manager, settings: Settings) -> None:
    checkup.build(manager, workers=settings.workers)


def _start_statefulcluster(manager: Manager, settings: Settings) -> None:
    statefulcluster.build(manager, workers=settings.workers)


# The one list: commands, definitions, roles and policies all follow from it.
COMPONENTS = {
    component.name: component
    for component in (
        Component(
            "jsonserver",
            (JSONSERVER,),
            _start_jsonserver,
            (jsonserver_admission.ADMISSION,),
            jsonserver_rbac.RIGHTS,
            jsonserver_rbac.DEMANDS,
        ),
        Component(
            "checkup",
            (CHECKUP,),
            _start_checkup,
            (checkup_admission.ADMISSION,),
            checkup_rbac.RIGHTS,
            checkup_rbac.DEMANDS,
        ),
        Component(
            "statefulcluster",
            (STATEFULCLUSTER,),
            _start_statefulcluster,
            (statefulcluster_admission.ADMISSION,),
            statefulcluster_rbac.RIGHTS,
            statefulcluster_rbac.DEMANDS,
        ),
    )
}
CUSTOM_RESOURCES = tuple(kind for component in COMPONENTS.values() for kind in component.kinds)
