"""Creates the objects of a run, the Job last.

An existing ConfigMap is never adopted: a checkup gets access only to one that has our owner reference. The
Job comes last, so that nothing runs without its permissions.
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
    """Creates the children of runs."""

    def __init__(self, children: Children, sources: CheckupCaches) -> None:
        self._children = children
        self._sources = sources

    async def ensure(self, checkup: Checkup, name: str, run: int) -> Child[JobState] | Obstacle:
        """Create the Job of a run and what it needs, or return what prevents that."""
        account = ObjectKey(checkup.metadata.namespace, checkup.spec.service_account_name)
        if self._sources.accounts.get(account) is None:
            text = f"ServiceAccount {account.name} does not exist in namespace {account.namespace}"
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
        # A changed Role or RoleBinding is corrected before anything runs with it.
        await children.ensure(checkup, desired.ROLES, desired.role(checkup, name))
        await children.ensure(checkup, desired.ROLE_BINDINGS, desired.role_binding(checkup, name))
        return await children.create(checkup, desired.JOBS, desired.job(checkup, name, run))


def refusal(error: Forbidden | Invalid) -> Obstacle:
    """Return the obstacle that a refused write means.

    Admission policies answer with the same status codes as validation. Waiting is pointless only if the API
    server names a field of the template.
    """
    if any(cause.field.startswith("spec.template") for cause in error.causes):
        return Obstacle(ObstacleReason.INVALID_TEMPLATE, error.message, lasting=True)
    return Obstacle(ObstacleReason.SETUP_REFUSED, error.message)
