"""Caches of children, pods and ServiceAccounts; `live_…` and `is_current` ask the API server."""

from collections.abc import Iterable

import msgspec

from quintet.apis.checkup import CHECKUPS, Checkup, results
from quintet.apis.checkup.contract import NAME_ANNOTATION, UID_LABEL
from quintet.apis.checkup.results import Results
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.controllers.checkup.decide import desired
from quintet.controllers.checkup.decide.observed import CheckupPod, JobState, JobStatus, job_state
from quintet.controllers.mount_failures import MountFailure, MountFailures
from quintet.kube.client import PODS
from quintet.kube.errors import NotFound
from quintet.runtime.builder import Builder
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import View

SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
BY_ACCOUNT = "account"
_BY_CHECKUP = "checkup"
_decode_pod = msgspec.json.Decoder(CheckupPod).decode


class ConfigMapView(View, frozen=True):
    """The fields that are read of a results ConfigMap."""

    data: dict[str, str] | None = None
    binary_data: dict[str, str] | None = None

    @property
    def results(self) -> Results:
        """The results that the checkup has written."""
        return results.parse(self.data, self.binary_data)


class _JobSpec(Struct, frozen=True):
    active_deadline_seconds: int = 0


class JobView(View, frozen=True):
    """The fields that are read of a Job."""

    spec: _JobSpec = _JobSpec()
    status: JobStatus = JobStatus()

    @property
    def state(self) -> JobState:
        """The cached part of the Job."""
        return job_state(self.spec.active_deadline_seconds, self.metadata.creation_timestamp, self.status)


class Account(Struct, frozen=True):
    """A ServiceAccount; only its existence is cached."""

    key: ObjectKey
    version: int


class CheckupCaches:
    """The caches of the checkup controller."""

    def __init__(self, builder: Builder[Checkup], manager: Manager) -> None:
        self._builder = builder
        chosen = desired.SELECTOR
        builder.owns(desired.ROLES, labels=chosen)
        builder.owns(desired.ROLE_BINDINGS, labels=chosen)
        self.results = builder.owns(
            desired.CONFIG_MAPS, ConfigMapView, state=lambda view: view.results, labels=chosen
        )
        self.jobs = builder.owns(desired.JOBS, JobView, state=lambda view: view.state, labels=chosen)
        self._pods = builder.watches(
            PODS,
            CheckupPod,
            _checkup_of,
            labels=chosen,
            indexes={_BY_CHECKUP: lambda pod: (pod.checkup_uid,)},
        )
        self.mounts = MountFailures(builder, manager, self._starting)
        self.accounts = builder.watches_reduced(
            SERVICE_ACCOUNTS, Object, lambda found: Account(found.key, found.version), self._waiting_for
        )

    def pods_of_run(self, checkup: Checkup, run: int) -> list[CheckupPod]:
        """Return the pods whose labels name a run of a Checkup."""
        named = self._pods.by_index(_BY_CHECKUP, checkup.metadata.uid)
        here = checkup.metadata.namespace
        return [pod for pod in named if pod.metadata.namespace == here and pod.run == str(run)]

    def has_begun(self, checkup: Checkup, name: str) -> bool:
        """Return whether objects of a run exist, even if the status does not record the run."""
        key = ObjectKey(checkup.metadata.namespace, name)
        found = (self.results.get(key), self.jobs.get(key))
        return any(child is not None and child.owner_uid == checkup.metadata.uid for child in found)

    async def is_current(self, checkup: Checkup) -> bool:
        """Return whether the API server has the same version of a Checkup as the cache."""
        known, chosen = checkup.metadata, f"metadata.name={checkup.metadata.name}"
        pages = self._builder.client.pages(CHECKUPS, namespace=known.namespace, fields=chosen, page_size=1)
        async for page in pages:
            live = [msgspec.json.decode(raw, type=Object).metadata for raw in page.items]
            return [meta.resource_version for meta in live] == [known.resource_version]
        return False

    async def live_results(self, key: ObjectKey, owner: Checkup) -> Results:
        """Get the results of a run, if the ConfigMap is owned by the Checkup."""
        try:
            live = await self._builder.client.get(desired.CONFIG_MAPS, key, ConfigMapView)
        except NotFound:
            return results.parse(None)
        ours = any(found.uid == owner.metadata.uid for found in live.metadata.owner_references)
        return live.results if ours else results.parse(None)

    async def live_job(self, key: ObjectKey) -> JobView | None:
        """Get the Job of a run."""
        try:
            return await self._builder.client.get(desired.JOBS, key, JobView)
        except NotFound:
            return None

    async def live_pods(self, owner: Checkup) -> list[CheckupPod]:
        """List the pods of a Checkup, one page."""
        chosen = f"{desired.SELECTOR},{UID_LABEL}={owner.metadata.uid}"
        async for page in self._builder.client.pages(
            PODS, namespace=owner.metadata.namespace, labels=chosen, page_size=10
        ):
            return [_decode_pod(raw) for raw in page.items]
        return []

    def _starting(self, failure: MountFailure) -> Iterable[ObjectKey]:
        pod = self._pods.get(failure.pod)
        return _checkup_of(pod) if pod is not None and pod.metadata.uid == failure.pod_uid else ()

    def _waiting_for(self, account: Account) -> Iterable[ObjectKey]:
        waiting = self._builder.primary.by_index(BY_ACCOUNT, str(account.key))
        return [checkup.key for checkup in waiting if not checkup.status.job_uid]


def account_of(checkup: Checkup) -> Iterable[str]:
    """Index a Checkup by its ServiceAccount."""
    return (f"{checkup.metadata.namespace}/{checkup.spec.service_account_name}",)


def _checkup_of(pod: CheckupPod) -> Iterable[ObjectKey]:
    name = pod.metadata.annotations.get(NAME_ANNOTATION)
    return (ObjectKey(pod.metadata.namespace, name),) if name else ()
