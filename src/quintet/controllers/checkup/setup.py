"""Makes what a run needs, in the order that keeps it safe, or says what is in the way.

The ConfigMap is created and never taken over: only one that carries our owner reference is ever
granted to a checkup. The Job comes last, so that nothing runs without its rights.
"""

from quintet.apis.checkup import Checkup
from quintet.apis.meta import ObjectKey
from quintet.controllers.checkup.caches import CheckupCaches
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.decide.observed import JobState, Obstacle, ObstacleReason
from quintet.kube.errors import Forbidden, Invalid
from quintet.runtime.apply import Children, ForeignObject
from quintet.runtime.ownership import Child


class Setup:
    """The children of runs."""

    def __init__(self, children: Children, sources: CheckupCaches) -> None:
        self._children = children
        self._sources = sources

    async def ensure(self, checkup: Checkup, name: str, run: int) -> Child[JobState] | Obstacle:
        """The Job of a run, with all that it needs; or why it cannot be made now."""
        account = ObjectKey(checkup.metadata.namespace, checkup.spec.service_account_name)
        if self._sources.accounts.get(account) is None:
            text = f"ServiceAccount {account.name} is not there in namespace {account.namespace}"
            return Obstacle(ObstacleReason.NO_SERVICE_ACCOUNT, text)
        try:
            return await self._make(checkup, name, run)
        except ForeignObject as error:
            return Obstacle(ObstacleReason.FOREIGN_OBJECT, str(error))
        except (Forbidden, Invalid) as error:
            return refusal(error)

    async def _make(self, checkup: Checkup, name: str, run: int) -> Child[JobState]:
        children = self._children
        await children.create(checkup, desired.CONFIG_MAPS, desired.config_map(checkup, name))
        # A Role or RoleBinding of ours that somebody changed is put right before anything runs with it.
        await children.ensure(checkup, desired.ROLES, desired.role(checkup, name))
        await children.ensure(checkup, desired.ROLE_BINDINGS, desired.role_binding(checkup, name))
        return await children.create(checkup, desired.JOBS, desired.job(checkup, name, run))


def refusal(error: Forbidden | Invalid) -> Obstacle:
    """What a refusal means. Pure.

    A policy answers with the code of a mistake too, and so does an object that was replaced meanwhile:
    only where the server itself names the template, no waiting can help.
    """
    if any(cause.field.startswith("spec.template") for cause in error.causes):
        return Obstacle(ObstacleReason.INVALID_TEMPLATE, error.message, lasting=True)
    return Obstacle(ObstacleReason.SETUP_REFUSED, error.message)
