"""Ends runs and deletes their objects."""

from quintet.apis.checkup import Checkup, CheckupStatus
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import Clock
from quintet.controllers.checkup.caches import CheckupCaches
from quintet.controllers.checkup.decide import desired, timing
from quintet.controllers.checkup.decide.desired import run_name
from quintet.kube.client import Client
from quintet.kube.errors import NotFound
from quintet.runtime.apply import Children


class Teardown:
    """Stops Jobs and deletes the children of runs."""

    def __init__(
        self,
        client: Client,
        children: Children,
        clock: Clock,
        sources: CheckupCaches,
        limits: timing.TimeLimits,
    ) -> None:
        self._client = client
        self._children = children
        self._clock = clock
        self._sources = sources
        self._limits = limits
        self._started_at: dict[ObjectKey, float] = {}

    async def stop(self, checkup: Checkup, status: CheckupStatus) -> None:
        """End a Job that outlived its run by a deadline in the past, so that it ends as any Job does."""
        key = ObjectKey(checkup.metadata.namespace, status.job)
        job = self._sources.jobs.get(key) if status.job_uid else None
        if job is None or job.uid != status.job_uid or job.deleting:
            return
        pods = [pod for pod in self._sources.pods_of_run(checkup, status.run) if pod.made_by(job.uid)]
        if pods and all(pod.has_ended for pod in pods):
            return  # the Job ends by itself, with its own result
        if job.state.succeeded is None and job.state.deadline != timing.STOPPED:
            body = {"metadata": {"uid": job.uid}, "spec": {"activeDeadlineSeconds": timing.STOPPED}}
            try:
                await self._client.patch(desired.JOBS, key, body, Object)
            except NotFound:
                return

    async def delete(self, checkup: Checkup, number: int) -> bool:
        """Delete the Job and pods of a run, then its other children; return whether all of them are gone."""
        name = run_name(checkup, number)
        if not await self._children.remove(checkup, desired.JOBS, name):
            return False
        job = ObjectKey(checkup.metadata.namespace, name)
        if self._sources.pods_of_run(checkup, number) and self._may_still_end(job):
            return False
        kinds = (desired.ROLE_BINDINGS, desired.ROLES, desired.CONFIG_MAPS)
        removed = all([await self._children.remove(checkup, kind, name) for kind in kinds])
        if removed:
            self._started_at.pop(job, None)
        return removed

    async def delete_unrecorded_run(self, checkup: Checkup) -> bool:
        """Delete the children of a run that a crashed process started and did not record.

        Return whether there are none.
        """
        number = checkup.status.run + 1
        if not self._sources.has_begun(checkup, run_name(checkup, number)):
            return True
        # The cache of Checkups may be behind the one of Jobs, and not show yet that this run was recorded.
        return await self._sources.is_current(checkup) and await self.delete(checkup, number)

    async def delete_all(self, checkup: Checkup) -> bool:
        """Delete the children of the last run, and of an unrecorded one; return whether all are gone."""
        last, unrecorded = max(checkup.status.run, 1), checkup.status.run + 1
        has_next = self._sources.has_begun(checkup, run_name(checkup, unrecorded))
        runs = {last, unrecorded} if has_next else {last}
        return all([await self.delete(checkup, number) for number in sorted(runs)])

    def _may_still_end(self, job: ObjectKey) -> bool:
        """Return whether pods may still end: a node that is gone never confirms the end of its pods."""
        now = self._clock.monotonic()
        return now - self._started_at.setdefault(job, now) < self._limits.teardown
