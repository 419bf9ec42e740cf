"""The only place of this controller that changes pods, claims and revisions.

Called by `controller` with what `plan` decided. Every call may be repeated after a lost answer:
what is there already under the recorded name is taken as made, if it is ours.
"""

from typing import Any, TypeVar

from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.apis.statefulcluster import UNUSABLE, Draw, StatefulCluster
from quintet.controllers.statefulcluster.decide import desired, views
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS, REVISIONS
from quintet.controllers.statefulcluster.decide.observed import BOUND, Claim, Pod, Revision
from quintet.kube.client import Client
from quintet.kube.errors import AlreadyExists, NotFound
from quintet.runtime.apply import ForeignObject
from quintet.runtime.cache import Store
from quintet.runtime.ownwrites import OwnWrites

T = TypeVar("T", bound=Object)


class ClaimNotUsable(Exception):
    """A claim that was to be used is on its way out: it has to be gone, or another taken."""


class ReplicaWriter:
    """Makes and removes what belongs to StatefulClusters."""

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
        """Complete a group; returns the names of what was missing. No pod is made before this is done."""
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
        """Make the pod of a drawn replica; False if it is there already."""
        body = desired.pod(cluster, draw, revision, template)
        key = ObjectKey(cluster.metadata.namespace, draw.replica)
        view, new = await self._create(cluster, PODS, key, body, views.PodView)
        if views.pod(view).owner_uid != cluster.metadata.uid:
            raise ForeignObject(PODS, key)
        return new

    async def make_revision(self, cluster: StatefulCluster, name: str, number: int) -> Revision | None:
        """Write the template down; None if that name stands for another template."""
        body = desired.revision(cluster, name, number)
        key = ObjectKey(cluster.metadata.namespace, name)
        view, _ = await self._create(cluster, REVISIONS, key, body, views.RevisionView)
        found = views.revision(view)
        if found.digest != desired.digest(desired.revision_data(cluster)):
            return None
        if not found.owner_uid:
            await self.own(cluster, REVISIONS, found.key, found.uid)
        return found if found.owner_uid in ("", cluster.metadata.uid) else None

    async def renumber(self, cluster: StatefulCluster, revision: Revision, number: int) -> None:
        """Make an old revision the newest, because the spec went back to it."""
        body = {"metadata": {"uid": revision.uid}, "revision": number}
        await self._patch(cluster, REVISIONS, revision.key, body)

    async def template_of(self, cluster: StatefulCluster, revision: str) -> JsonObject:
        """The template that a revision was made from."""
        key = ObjectKey(cluster.metadata.namespace, revision)
        view = await self._client.get(REVISIONS, key, views.RevisionView)
        template: JsonObject = view.data.get("spec", {}).get("template", {})
        return template

    async def remove_pod(self, pod: Pod, *, voluntary: bool) -> None:
        """Ask a pod to go. What serves goes only as far as disruption budgets allow."""
        try:
            live = await self._client.get(PODS, pod.key, Object)
            if live.metadata.uid != pod.uid or live.metadata.deleting:
                return  # it goes already
            if voluntary:
                await self._client.evict(pod.key, uid=pod.uid)
            else:
                await self._client.delete(PODS, pod.key, uid=pod.uid)
        except NotFound:
            return  # somebody was faster

    async def delete(self, resource: Resource, obj: Claim | Revision) -> None:
        """Delete a claim or a revision, if it is still the one that was looked at."""
        try:
            await self._client.delete(resource, obj.key, uid=obj.uid, propagation="Background")
        except NotFound:
            return

    async def own(
        self, cluster: StatefulCluster, resource: Resource, key: ObjectKey, uid: str, *, owned: bool = True
    ) -> None:
        """Add or take away the reference to the cluster; other references stay."""
        live = await self._client.get(resource, key, Object)
        others = [
            reference for reference in live.metadata.owner_references if reference.uid != cluster.metadata.uid
        ]
        controls = resource != CLAIMS
        if live.metadata.uid != uid or (controls and any(reference.controller for reference in others)):
            return  # it became somebody else's meanwhile
        mine = [desired.owner(cluster, controls=controls)] if owned else []
        references: list[Any] = [*others, *mine]
        metadata = {
            "uid": uid,
            "resourceVersion": live.metadata.resource_version,
            "ownerReferences": references,
        }
        await self._patch(cluster, resource, key, {"metadata": metadata})

    async def expand(self, cluster: StatefulCluster, claim: Claim, size: str) -> None:
        """Ask for a larger volume; the server refuses where the storage class does not allow it."""
        spec = {"resources": {"requests": {"storage": size}}}
        await self._patch(cluster, CLAIMS, claim.key, {"metadata": {"uid": claim.uid}, "spec": spec})

    async def set_aside(self, cluster: StatefulCluster, claims: list[Claim], why: str) -> None:
        """Mark claims so that no replica takes them any more.

        One that has no volume may be getting it at this very moment: it goes first, as it was looked at, so
        that none is marked if it is bound by now.
        """
        for claim in sorted(claims, key=lambda claim: claim.phase == BOUND):
            metadata: JsonObject = {"uid": claim.uid, "annotations": {UNUSABLE: why}}
            if claim.phase != BOUND:
                metadata["resourceVersion"] = str(claim.version)
            await self._patch(cluster, CLAIMS, claim.key, {"metadata": metadata})

    async def _create(
        self, cluster: StatefulCluster, resource: Resource, key: ObjectKey, body: JsonObject, kind: type[T]
    ) -> tuple[T, bool]:
        """Make an object, or find the one that has its name; whether it was made now."""
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
