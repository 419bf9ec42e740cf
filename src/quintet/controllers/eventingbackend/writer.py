"""Makes the children of a backend what `desired` and `server` want, and takes away what is not needed.

Called by `controller`. What comes of it is a `Rollout` or what is in the way; errors that another try
may mend are kept for the end, so that one failed child does not keep the others from being made.
"""

from typing import Any

from quintet.apis.eventingbackend import Effective, EventingBackend, Standing
from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.controllers.child_results import gather_children, is_blocked_by_others, is_transient
from quintet.controllers.eventingbackend.caches import BackendCaches
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.decide.desired import DataPlane, Pods
from quintet.controllers.eventingbackend.decide.probe_result import ProbeResult, Reason
from quintet.controllers.eventingbackend.decide.status import WorkloadState, standing_of
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
    """The only one here who writes children; one for each reconciliation."""

    def __init__(
        self, backend: EventingBackend, children: Children, sources: BackendCaches, system_namespace: str
    ) -> None:
        self._backend = backend
        self._children = children
        self._sources = sources
        self._system_namespace = system_namespace
        self.failures: list[Exception] = []
        """What another try may mend."""
        self.unmade = 0
        """How often something could not be made as wanted, whatever may mend that."""

    @property
    def key(self) -> ObjectKey:
        """The backend."""
        return self._backend.key

    def name(self, part: str) -> ObjectKey:
        """Where the objects of a part are."""
        meta = self._backend.metadata
        return ObjectKey(meta.namespace, child_name(meta.name, part))

    async def server(self, config: Effective, image: str) -> WorkloadState | ProbeResult:
        """The server of a backend that brings its own."""
        backend, child = self._backend, self._sources.servers.get(self.name(SERVER))
        if child is not None and self.owns(child) and child.state.servers != server.servers(config):
            text = (
                f"the server of this backend runs with streamReplicas {child.state.servers}, which cannot be "
                "changed: set it back, or make another backend"
            )
            return ProbeResult(reason=Reason.SERVER_FIXED, message=text)
        size = child.state.claim_size if child is not None else ""
        wanted = server.stateful_set(backend, config, image, size=size or server.claim_size(config))
        made = await self._ensure_all(
            # Before the pods: nobody may come near the server as long as nothing keeps them away.
            (server.NETWORK_POLICIES, server.network_policy(backend, self._system_namespace)),
            (desired.SERVICES, server.service(backend)),
            (desired.BUDGETS, desired.budget(backend, SERVER)),
            (server.STATEFUL_SETS, wanted),
        )
        if isinstance(made, Standing):
            return ProbeResult(reason=Reason.API_FAILED, message=made.message)
        rollout: WorkloadState = made[-1].state
        return rollout

    async def publisher(self, plane: DataPlane, pods: Pods) -> Standing:
        """What takes in events."""
        backend = self._backend
        replicas = self._replicas(PUBLISHER, plane.publisher_replicas)
        return await self._part(
            (desired.SERVICES, desired.publisher_service(backend)),
            (desired.BUDGETS, desired.budget(backend, PUBLISHER)),
            (desired.DEPLOYMENTS, desired.publisher(backend, plane, pods, replicas=replicas)),
        )

    async def dispatcher(self, plane: DataPlane, pods: Pods) -> Standing:
        """What delivers events."""
        backend, settings = self._backend, plane.dispatcher
        assert settings is not None, "the driver wants no dispatcher"
        replicas = self._replicas(DISPATCHER, plane.dispatcher_replicas)
        return await self._part(
            # The rights first: a pod that starts without them would have to be restarted.
            (desired.SERVICE_ACCOUNTS, desired.account(backend)),
            (desired.ROLES, desired.role(backend)),
            (desired.ROLE_BINDINGS, desired.role_binding(backend)),
            (desired.SERVICES, desired.dispatcher_service(backend)),
            (desired.BUDGETS, desired.budget(backend, DISPATCHER)),
            (desired.DEPLOYMENTS, desired.dispatcher(backend, settings, pods, replicas=replicas)),
        )

    async def remove(self, part: str) -> bool:
        """Take a part away; True once nothing of it is left. Claims, and what is on them, stay."""
        name = self.name(part).name
        gone = [await self._children.remove(self._backend, kind, name) for kind in PARTS[part]]
        return all(gone)

    def only_raced(self, failures: int) -> bool:
        """Whether nothing has failed but writes to what others changed or deleted, and that not for long."""
        raced = (
            isinstance(each, Conflict | NotFound) and is_transient(each, failures) for each in self.failures
        )
        return bool(self.failures) and all(raced)

    def owns(self, child: Child[Any]) -> bool:
        """Whether a child is this backend's."""
        return child.owner_uid == self._backend.metadata.uid

    def has(self, part: str) -> bool:
        """Whether anything of a part is known to be there."""
        found = (self._children.get(kind, self.name(part)) for kind in PARTS[part])
        return any(child is not None and self.owns(child) for child in found)

    def _replicas(self, part: str, wanted: int) -> int | None:
        """None where an autoscaler has taken the number over: then it is not ours to set."""
        key = self.name(part)
        known = self._sources.rollout(key)
        return None if known is not None and known.scaled and self._sources.is_autoscaled(key) else wanted

    async def _part(self, *wanted: tuple[Resource, JsonObject]) -> Standing:
        made = await self._ensure_all(*wanted)
        return made if isinstance(made, Standing) else standing_of(made[-1].state)

    async def _ensure_all(self, *wanted: tuple[Resource, JsonObject]) -> list[Child[Any]] | Standing:
        """All of them, the last one last; or what to say if one could not be made."""
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
            return Standing("False", message=text)
        made = [result for result in results if isinstance(result, Child)]
        if any(child.deleting for child in made):
            self.unmade += 1
            text = "an object is still being deleted; it is made again when it is gone"
            return Standing("False", message=text)
        return made
