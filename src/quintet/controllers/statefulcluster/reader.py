"""Reads from the API server what the caches do not hold, or not reliably enough."""

from collections.abc import Iterable

import msgspec

from quintet.apis.labels import Requirement, Selector, as_query, matches
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.apis.statefulcluster import CLUSTER_LABEL, STATEFULCLUSTERS, StatefulCluster
from quintet.controllers.statefulcluster.decide import views
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS
from quintet.controllers.statefulcluster.decide.observed import Claim, Pod, VolumeLook
from quintet.controllers.statefulcluster.decide.volumes import LookRequest
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound

VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", False)
NODES = Resource("", "v1", "Node", "nodes", False)
CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

_HOSTNAME = "kubernetes.io/hostname"


class _Term(Struct, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class _Required(Struct, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _Affinity(Struct, frozen=True):
    required: _Required = _Required()


class _VolumeSpec(Struct, frozen=True):
    node_affinity: _Affinity = _Affinity()


class VolumeView(Object, frozen=True):
    """The fields that are read of a PersistentVolume."""

    spec: _VolumeSpec = _VolumeSpec()


class _NodeCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, frozen=True):
    conditions: tuple[_NodeCondition, ...] = ()


class NodeView(Object, frozen=True):
    """The fields that are read of a Node."""

    status: _NodeStatus = _NodeStatus()


class ClassView(Object, frozen=True):
    """The fields that are read of a StorageClass."""

    volume_binding_mode: str = "Immediate"


class _BudgetSpec(Struct, frozen=True):
    selector: Selector | None = None


class BudgetView(Object, frozen=True):
    """The fields that are read of a PodDisruptionBudget."""

    spec: _BudgetSpec = _BudgetSpec()


class LiveReader:
    """Reads objects from the API server, bypassing the caches."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def pods(self, cluster: StatefulCluster, known: Iterable[Pod]) -> list[Pod]:
        """Return the cluster's pods; `known` ones are found even if they lost their label."""
        listed = await self._list(PODS, cluster.metadata.namespace, _label(cluster), views.PodView)
        found = {pod.key: pod for pod in map(views.pod, listed)}
        for pod in known:
            if pod.key not in found:
                try:
                    found[pod.key] = views.pod(await self._client.get(PODS, pod.key, views.PodView))
                except NotFound:
                    continue
        return list(found.values())

    async def exists(self, cluster: StatefulCluster) -> bool:
        """Return whether the cluster exists; the caches may not have heard of its deletion."""
        meta = cluster.metadata
        name = f"metadata.name={meta.name}"
        found = await self._list(STATEFULCLUSTERS, meta.namespace, "", Object, fields=name)
        return any(each.metadata.uid == meta.uid for each in found)

    async def claims(self, cluster: StatefulCluster) -> list[Claim]:
        """Return the cluster's claims."""
        listed = await self._list(CLAIMS, cluster.metadata.namespace, _label(cluster), views.ClaimView)
        return [views.claim(view) for view in listed]

    async def claims_named(self, namespace: str, names: Iterable[str]) -> list[Claim]:
        """Return the claims of these names that exist, with or without labels."""
        found = []
        for name in names:
            try:
                view = await self._client.get(CLAIMS, ObjectKey(namespace, name), views.ClaimView)
            except NotFound:
                continue
            found.append(views.claim(view))
        return found

    async def budgets(self, pod: Pod) -> list[str]:
        """Return the names of the PodDisruptionBudgets that cover a pod."""
        try:
            listed = await self._list(BUDGETS, pod.key.namespace, "", BudgetView)
        except Forbidden:
            return []
        return [
            budget.metadata.name
            for budget in listed
            if budget.spec.selector is not None and matches(budget.spec.selector, pod.labels)
        ]

    async def look_at_volumes(self, request: LookRequest, now: float) -> VolumeLook:
        """Return why the volumes of a group cannot be used; `why` is empty if that is unknown."""
        for claim in request.group.claims:
            look = VolumeLook(now)
            if claim.volume:
                look = await self._look_at_volume(claim, now)
            elif request.expects_volumes:
                look = VolumeLook(now, await self._never_bound(claim))
            if look.why:
                return look
        return VolumeLook(now)

    async def _look_at_volume(self, claim: Claim, now: float) -> VolumeLook:
        try:
            volume = await self._client.get(VOLUMES, ObjectKey("", claim.volume), VolumeView)
        except NotFound:
            return VolumeLook(now, f"volume {claim.volume} of claim {claim.name} is gone")
        except Forbidden:
            return VolumeLook(now)
        terms = volume.spec.node_affinity.required.node_selector_terms
        found = [await self._find_nodes(term) for term in terms]
        if not terms or any(nodes is None or any(map(_alive, nodes)) for nodes in found):
            return VolumeLook(now)
        if not any(found) and not all(map(_names_nodes, terms)):
            why = f"no node has the labels that volume {claim.volume} of claim {claim.name} requires"
            return VolumeLook(now, why, may_return=True)
        state = "are not ready" if any(found) else "do not exist"
        why = f"the nodes of volume {claim.volume} of claim {claim.name} {state}"
        return VolumeLook(now, why)

    async def _never_bound(self, claim: Claim) -> str:
        """Return why a claim has no volume; empty if it only waits for its pod to be scheduled."""
        try:
            found = await self._client.get(CLASSES, ObjectKey("", claim.storage_class), ClassView)
        except (NotFound, Forbidden):
            found = ClassView()
        if found.volume_binding_mode == "Immediate" or claim.node:
            return f"claim {claim.name} of storage class {claim.storage_class or 'none'} has no volume"
        return ""

    async def _find_nodes(self, term: _Term) -> list[NodeView] | None:
        """Return the nodes that a term selects; None if that cannot be found out."""
        labels = _as_labels(term)
        fields = ",".join(f"{each.key}={value}" for each in term.match_fields for value in each.values)
        if labels is None or any(each.operator != "In" for each in term.match_fields):
            return None
        try:
            return await self._list(NODES, "", labels, NodeView, fields=fields)
        except Forbidden:
            return None

    async def _list(
        self, resource: Resource, namespace: str, labels: str, kind: type[views.V], *, fields: str = ""
    ) -> list[views.V]:
        decode = msgspec.json.Decoder(kind).decode
        pages = self._client.pages(resource, namespace=namespace, labels=labels, fields=fields)
        return [decode(item) async for page in pages for item in page.items]


def _label(cluster: StatefulCluster) -> str:
    return f"{CLUSTER_LABEL}={cluster.metadata.name}"


def _as_labels(term: _Term) -> str | None:
    """Return a term as a label selector, or None if it cannot be expressed as one."""
    parts = [as_query(each) for each in term.match_expressions]
    return None if None in parts else ",".join(filter(None, parts))


def _names_nodes(term: _Term) -> bool:
    """Return whether a term selects nodes by name, and not a zone or pool that can get new ones."""
    return bool(term.match_fields) or any(each.key == _HOSTNAME for each in term.match_expressions)


def _alive(node: NodeView) -> bool:
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return ready is None or ready.status == "True"
