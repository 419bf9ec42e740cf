"""Creates, updates and deletes the children of a backend.

Errors that a retry may fix are collected, so that one failed child does not stop the others.
"""

from typing import Any

from quintet.apis.eventingbackend import Effective, EventingBackend, PartCondition
from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.controllers.child_results import gather_children, is_blocked_by_others, is_transient
from quintet.controllers.eventingbackend.caches import BackendCaches
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.decide.desired import DataPlane, Pods
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.decide.status import WorkloadState, part_condition
from quintet.eventing.children import DISPATCHER, PUBLISHER, SERVER, child_name
from quintet.kube.errors import ApiError, Conflict, NotFound
from quintet.runtime.apply import Children
from quintet.runtime.ownership import Child

_SERVER_TYPES = (server.STATEFUL_SETS, desired.SERVICES, server.NETWORK_POLICIES, desired.BUDGETS)
_PUBLISHER_TYPES = (desired.DEPLOYMENTS, desired.SERVICES, desired.BUDGETS)
_DISPATCHER_TYPES = (
    desired.DEPLOYMENTS,
    desired.SERVICES,
    desired.BUDGETS,
    desired.ROLE_BINDINGS,
    desired.ROLES,
    desired.SERVICE_ACCOUNTS,
)
PARTS = {PUBLISHER: _PUBLISHER_TYPES, DISPATCHER: _DISPATCHER_TYPES, SERVER: _SERVER_TYPES}


class ChildWriter:
    """Writes the children of one backend during one reconciliation."""

    def __init__(
        self, backend: EventingBackend, children: Children, sources: BackendCaches, system_namespace: str
    ) -> None:
        self._backend = backend
        self._children = children
        self._sources = sources
        self._system_namespace = system_namespace
        self.failures: list[Exception] = []
        """Errors that a retry may fix."""
        self.unmade = 0
        """Number of parts that could not be brought to the desired state."""

    @property
    def key(self) -> ObjectKey:
        """Key of the backend."""
        return self._backend.key

    def name(self, part: str) -> ObjectKey:
        """Return the key of a part's objects."""
        meta = self._backend.metadata
        return ObjectKey(meta.namespace, child_name(meta.name, part))

    async def server(self, config: Effective, image: str) -> WorkloadState | ProbeResult:
        """Apply the NATS server that is run for the backend."""
        backend, child = self._backend, self._sources.servers.get(self.name(SERVER))
        if child is not None and self.owns(child) and child.state.servers != server.servers(config):
            text = (
                f"the server of this backend runs with streamReplicas {child.state.servers}, which cannot be "
                "changed: restore the old value, or create another backend"
            )
            return ProbeResult(Reason.SERVER_FIXED, text)
        size = child.state.claim_size if child is not None else ""
        wanted = server.stateful_set(backend, config, image, size=size or server.claim_size(config))
        made = await self._ensure_all(
            # Before the pods, so that the server is never reachable without it.
            (server.NETWORK_POLICIES, server.network_policy(backend, self._system_namespace)),
            (desired.SERVICES, server.service(backend)),
            (desired.BUDGETS, desired.budget(backend, SERVER)),
            (server.STATEFUL_SETS, wanted),
        )
        if isinstance(made, PartCondition):
            return ProbeResult(Reason.API_FAILED, made.message)
        rollout: WorkloadState = made[-1].state
        return rollout

    async def publisher(self, plane: DataPlane, pods: Pods) -> PartCondition:
        """Apply the publisher."""
        backend = self._backend
        replicas = self._replicas(PUBLISHER, plane.publisher_replicas)
        return await self._part(
            (desired.SERVICES, desired.publisher_service(backend)),
            (desired.BUDGETS, desired.budget(backend, PUBLISHER)),
            (desired.DEPLOYMENTS, desired.publisher(backend, plane, pods, replicas=replicas)),
        )

    async def dispatcher(self, plane: DataPlane, pods: Pods) -> PartCondition:
        """Apply the dispatcher."""
        backend, settings = self._backend, plane.dispatcher
        assert settings is not None, "the driver wants no dispatcher"
        replicas = self._replicas(DISPATCHER, plane.dispatcher_replicas)
        return await self._part(
            # Permissions first: a pod that starts without them would have to be restarted.
            (desired.SERVICE_ACCOUNTS, desired.account(backend)),
            (desired.ROLES, desired.role(backend)),
            (desired.ROLE_BINDINGS, desired.role_binding(backend)),
            (desired.SERVICES, desired.dispatcher_service(backend)),
            (desired.BUDGETS, desired.budget(backend, DISPATCHER)),
            (desired.DEPLOYMENTS, desired.dispatcher(backend, settings, pods, replicas=replicas)),
        )

    async def remove(self, part: str) -> bool:
        """Delete a part; return True once it is gone. Claims and their data remain."""
        name = self.name(part).name
        gone = [await self._children.remove(self._backend, kind, name) for kind in PARTS[part]]
        return all(gone)

    def only_raced(self, failures: int) -> bool:
        """Return whether there were only conflicts and deletions by others, and not for long."""
        raced = (
            isinstance(each, Conflict | NotFound) and is_transient(each, failures) for each in self.failures
        )
        return bool(self.failures) and all(raced)

    def owns(self, child: Child[Any]) -> bool:
        """Return whether the backend owns a child."""
        return child.owner_uid == self._backend.metadata.uid

    def has(self, part: str) -> bool:
        """Return whether any object of a part exists."""
        found = (self._children.get(kind, self.name(part)) for kind in PARTS[part])
        return any(child is not None and self.owns(child) for child in found)

    def _replicas(self, part: str, wanted: int) -> int | None:
        """Return the replicas to set; None if an autoscaler sets them."""
        key = self.name(part)
        known = self._sources.rollout(key)
        return None if known is not None and known.scaled and self._sources.is_autoscaled(key) else wanted

    async def _part(self, *wanted: tuple[Resource, JsonObject]) -> PartCondition:
        made = await self._ensure_all(*wanted)
        return made if isinstance(made, PartCondition) else part_condition(made[-1].state)

    async def _ensure_all(self, *wanted: tuple[Resource, JsonObject]) -> list[Child[Any]] | PartCondition:
        """Apply all objects, the last one after the others; or return the condition for a failure."""
        first = [self._children.ensure(self._backend, *each) for each in wanted[:-1]]
        results = await gather_children(*first)
        errors = [result for result in results if isinstance(result, Exception)]
        if not errors:
            results += await gather_children(self._children.ensure(self._backend, *wanted[-1]))
            errors = [result for result in results if isinstance(result, Exception)]
        self.failures += (error for error in errors if not is_blocked_by_others(error))
        if errors:
            self.unmade += 1
            text = errors[0].message if isinstance(errors[0], ApiError) else str(errors[0])
            return PartCondition("False", message=text)
        made = [result for result in results if isinstance(result, Child)]
        if any(child.deleting for child in made):
            self.unmade += 1
            text = "an object is still being deleted; it is created again afterwards"
            return PartCondition("False", message=text)
        return made
