"""Reads from the API server what the caches do not hold, or not reliably enough."""

from collections.abc import Iterable

import msgspec

from quintet.apis.labels import Requirement, Selector, as_query, matches
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.apis.statefulcluster import CLUSTER_LABEL, StatefulCluster
from quintet.controllers.statefulcluster.decide import views
from quintet.controllers.statefulcluster.decide.desired import CLAIMS, PODS
from quintet.controllers.statefulcluster.decide.observed import Claim, Pod, parse_time
from quintet.kube.client import Client
from quintet.kube.errors import Forbidden, NotFound

VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", False)
NODES = Resource("", "v1", "Node", "nodes", False)
CLASSES = Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
BUDGETS = Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")

DEAD_AFTER = 300.0
"""Seconds without a ready node status after which the node counts as lost."""


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
    last_transition_time: str | None = None


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

    async def claims(self, cluster: StatefulCluster) -> list[Claim]:
        """Return the cluster's claims."""
        listed = await self._list(CLAIMS, cluster.metadata.namespace, _label(cluster), views.ClaimView)
        return [views.claim(view) for view in listed]

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

    async def lost_volume(self, claims: Iterable[Claim], now: float) -> str:
        """Return why no live node can reach a volume; empty if one can, or if that is unknown."""
        for claim in claims:
            if not claim.volume:
                continue
            try:
                key = ObjectKey("", claim.volume)
                volume = await self._client.get(VOLUMES, key, VolumeView)
            except NotFound:
                return f"volume {claim.volume} of claim {claim.name} is gone"
            except Forbidden:
                continue
            terms = volume.spec.node_affinity.required.node_selector_terms
            if terms and not await self._any_alive(terms, now):
                return f"volume {claim.volume} of claim {claim.name} is bound to nodes that no longer exist"
        return ""

    async def never_bound(self, claims: Iterable[Claim]) -> str:
        """Return why a claim has no volume; empty if it only waits for its pod to be scheduled."""
        for claim in claims:
            if claim.volume:
                continue
            try:
                found = await self._client.get(CLASSES, ObjectKey("", claim.storage_class), ClassView)
            except (NotFound, Forbidden):
                found = ClassView()
            if found.volume_binding_mode == "Immediate" or claim.node:
                return f"claim {claim.name} of storage class {claim.storage_class or 'none'} has no volume"
        return ""

    async def _any_alive(self, terms: tuple[_Term, ...], now: float) -> bool:
        for term in terms:
            labels = _as_labels(term)
            fields = ",".join(f"{each.key}={value}" for each in term.match_fields for value in each.values)
            if labels is None or any(each.operator != "In" for each in term.match_fields):
                return True  # cannot be queried: assume that such a node exists
            try:
                nodes = await self._list(NODES, "", labels, NodeView, fields=fields)
            except Forbidden:
                return True
            if any(_alive(node, now) for node in nodes):
                return True
        return False

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


def _alive(node: NodeView, now: float) -> bool:
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    if ready is None or ready.status == "True":
        return True
    return now < parse_time(ready.last_transition_time) + DEAD_AFTER
