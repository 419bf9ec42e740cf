"""The only module of this controller that changes pods, claims and revisions.

Every call can be repeated after a lost response: an existing object with the recorded name and the right
owner counts as created.
"""

from typing import Any, TypeVar

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.statefulcluster import (
    CLUSTER_LABEL,
    GROUP_LABEL,
    TEMPLATE_LABEL,
    UNUSABLE,
    UNUSABLE_UNTIL,
    Draw,
    StatefulCluster,
)
from quintet.controllers.statefulcluster.decide import desired, views
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS, REVISIONS
from quintet.controllers.statefulcluster.decide.observed import BOUND, Claim, Pod, Revision
from quintet.kube.client import Client
from quintet.kube.errors import AlreadyExists, Invalid, NotFound
from quintet.runtime.apply import ForeignObject
from quintet.runtime.cache import Store
from quintet.runtime.ownwrites import OwnWrites

T = TypeVar("T", bound=Object)


class ClaimNotUsable(Exception):
    """A claim that a pod needs is being deleted."""


class ReplicaWriter:
    """Creates, changes and deletes the objects of StatefulClusters."""

    def __init__(
        self,
        client: Client,
        writes: OwnWrites,
        pods: Store[Pod],
        claims: Store[Claim],
        revisions: Store[Revision],
    ) -> None:
        self._client = client
        self._writes = writes
        self._stores: dict[Resource, Store[Any]] = {PODS: pods, CLAIMS: claims, REVISIONS: revisions}

    async def make_claims(self, cluster: StatefulCluster, group: str) -> list[str]:
        """Create the missing claims of a group and return their names."""
        made = []
        for template in cluster.spec.volume_claim_templates:
            body = desired.claim(cluster, template, group)
            key = ObjectKey(cluster.metadata.namespace, body["metadata"]["name"])
            known: Claim | None = self._stores[CLAIMS].get(key)
            if known is None:
                view, new = await self._create(cluster, CLAIMS, key, body, views.ClaimView)
                known = views.claim(view)
                made += [key.name] if new else []
            if (known.cluster, known.group) != (cluster.metadata.name, group):
                raise ForeignObject(CLAIMS, key)
            if known.deleting:
                raise ClaimNotUsable(f"claim {key.name} is being deleted")
        return made

    async def make_pod(
        self, cluster: StatefulCluster, draw: Draw, revision: str, template: JsonObject
    ) -> bool:
        """Create the pod of a recorded replica; return False if it exists."""
        body = desired.pod(cluster, draw, revision, template)
        key = ObjectKey(cluster.metadata.namespace, draw.replica)
        view, new = await self._create(cluster, PODS, key, body, views.PodView)
        if views.pod(view).owner_uid != cluster.metadata.uid:
            raise ForeignObject(PODS, key)
        return new

    async def make_revision(self, cluster: StatefulCluster, name: str, number: int) -> Revision | None:
        """Store the template as a revision; return None if another template has that name."""
        body = desired.revision(cluster, name, number)
        body["data"] = desired.escape(body["data"])
        key = ObjectKey(cluster.metadata.namespace, name)
        view, _ = await self._create(cluster, REVISIONS, key, body, views.RevisionView)
        found = views.revision(view)
        if found.digest != desired.digest(desired.revision_data(cluster)):
            return None
        if not found.owner_uid:
            await self.own(cluster, REVISIONS, found.key, found.uid)
        return found if found.owner_uid in ("", cluster.metadata.uid) else None

    async def renumber(self, cluster: StatefulCluster, revision: Revision, number: int) -> None:
        """Make an old revision the newest, after the spec was changed back to it.

        One that somebody stored without the escapes of the API server cannot be changed: it is deleted, and
        stored again under its name.
        """
        body = {"metadata": {"uid": revision.uid}, "revision": number}
        try:
            await self._patch(cluster, REVISIONS, revision.key, body)
        except Invalid:
            await self.delete(REVISIONS, revision)

    async def template_of(self, cluster: StatefulCluster, revision: str) -> JsonObject:
        """Return the pod template of a revision."""
        key = ObjectKey(cluster.metadata.namespace, revision)
        view = await self._client.get(REVISIONS, key, views.RevisionView)
        template: JsonObject = view.data.get("spec", {}).get("template", {})
        return template

    async def remove_pod(self, pod: Pod, *, voluntary: bool) -> bool:
        """Evict a pod (`voluntary`, respects PodDisruptionBudgets), or delete one that is not ready.

        Returns False, and does nothing, if a pod to delete has become ready. A change between the look and
        the deletion raises `Conflict`.
        """
        try:
            live = await self._client.get(PODS, pod.key, views.PodView)
            if live.metadata.uid != pod.uid or live.metadata.deleting:
                return True  # it is being deleted already
            if voluntary:
                await self._client.evict(pod.key, uid=pod.uid)
                return True
            if views.pod(live).ready:
                return False
            version = live.metadata.resource_version
            await self._client.delete(PODS, pod.key, uid=pod.uid, resource_version=version)
        except NotFound:
            pass  # it is gone already
        return True

    async def delete(self, resource: Resource, obj: Claim | Revision) -> None:
        """Delete a claim or revision if its uid is unchanged."""
        try:
            await self._client.delete(resource, obj.key, uid=obj.uid, propagation="Background")
        except NotFound:
            return

    async def own(
        self, cluster: StatefulCluster, resource: Resource, key: ObjectKey, uid: str, *, owned: bool = True
    ) -> None:
        """Add or remove the owner reference to the cluster; keep other references."""
        live = await self._client.get(resource, key, Object)
        others = [
            reference for reference in live.metadata.owner_references if reference.uid != cluster.metadata.uid
        ]
        controls = resource != CLAIMS
        if live.metadata.uid != uid or (controls and any(reference.controller for reference in others)):
            return  # it has another owner now
        mine = [desired.owner(cluster, controls=controls)] if owned else []
        references: list[Any] = [*others, *mine]
        metadata = {
            "uid": uid,
            "resourceVersion": live.metadata.resource_version,
            "ownerReferences": references,
        }
        await self._patch(cluster, resource, key, {"metadata": metadata})

    async def expand(self, cluster: StatefulCluster, claim: Claim, size: str) -> None:
        """Request a larger volume; the API server refuses it if the StorageClass does not allow expansion."""
        spec = {"resources": {"requests": {"storage": size}}}
        await self._patch(cluster, CLAIMS, claim.key, {"metadata": {"uid": claim.uid}, "spec": spec})

    async def set_aside(self, cluster: StatefulCluster, claims: list[Claim], why: str) -> None:
        """Annotate claims as unusable, so that no replica adopts them.

        Claims without a volume go first, with their resourceVersion: if one was bound meanwhile, the conflict
        keeps all others unmarked.
        """
        for claim in sorted(claims, key=lambda claim: claim.phase == BOUND):
            marks = {UNUSABLE: why, UNUSABLE_UNTIL: "Reachable"}
            metadata: JsonObject = {"uid": claim.uid, "annotations": marks}
            if claim.phase != BOUND:
                metadata["resourceVersion"] = str(claim.version)
            await self._patch(cluster, CLAIMS, claim.key, {"metadata": metadata})

    async def relabel(self, cluster: StatefulCluster, claim: Claim) -> None:
        """Restore the labels of a claim."""
        labels = {CLUSTER_LABEL: claim.cluster, GROUP_LABEL: claim.group, TEMPLATE_LABEL: claim.template}
        metadata = {"uid": claim.uid, "resourceVersion": str(claim.version), "labels": labels}
        await self._patch(cluster, CLAIMS, claim.key, {"metadata": metadata})

    async def use_again(self, cluster: StatefulCluster, claims: list[Claim]) -> None:
        """Remove the annotations that `set_aside` made."""
        for claim in claims:
            marks = {UNUSABLE: None, UNUSABLE_UNTIL: None}
            metadata = {"uid": claim.uid, "resourceVersion": str(claim.version), "annotations": marks}
            await self._patch(cluster, CLAIMS, claim.key, {"metadata": metadata})

    async def _create(
        self, cluster: StatefulCluster, resource: Resource, key: ObjectKey, body: JsonObject, kind: type[T]
    ) -> tuple[T, bool]:
        """Create an object, or get the existing one of that name; return whether it was created."""
        try:
            made, new = await self._client.create(resource, body, kind, namespace=key.namespace), True
        except AlreadyExists:
            made, new = await self._client.get(resource, key, kind), False
        self._writes.record(cluster.key, self._stores[resource], made.version)
        return made, new

    async def _patch(
        self, cluster: StatefulCluster, resource: Resource, key: ObjectKey, body: JsonObject
    ) -> None:
        answer = await self._client.patch(resource, key, body, Object)
        self._writes.record(cluster.key, self._stores[resource], answer.version)
