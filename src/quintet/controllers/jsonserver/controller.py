"""Brings the children of a JsonServer to what its spec says, and writes down how that went.

Called by `runtime.controller` with a key. The phases: look → hold (finalizer) → check the
data → apply the children → read the data back → write the status.
"""

from collections.abc import Awaitable
from typing import Any

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.jsonserver import JSONSERVERS, JsonServer, State, jsonconfig
from quintet.apis.jsonserver.types import FINALIZER
from quintet.apis.jsonserver.validation import config_errors, template_errors
from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.controllers.child_results import gather_children, is_blocked_by_others, is_transient
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.status import (
    NOT_A_JSON_OBJECT,
    DeploymentStatus,
    Reason,
    Rollout,
    SyncProblem,
    Verification,
    needs_verification,
    status_of,
    verification_delay,
)
from quintet.controllers.jsonserver.served_data import ReadData
from quintet.controllers.suspension import unless_suspended
from quintet.kube.errors import ApiError
from quintet.runtime import conditions, finalizers
from quintet.runtime.apply import ForeignObject
from quintet.runtime.builder import Builder
from quintet.runtime.events import NORMAL, WARNING
from quintet.runtime.manager import Manager
from quintet.runtime.ownership import Child, View
from quintet.runtime.reconcile import Result

# Nobody tells us when a foreign object goes away, so we look again.
_LOOK_AGAIN = 10.0


class DeploymentView(View, frozen=True):
    """What is read of a Deployment."""

    status: DeploymentStatus = DeploymentStatus()


class JsonServerController:
    """Reconciles JsonServers."""

    def __init__(self, builder: Builder[JsonServer], image: str, read_back: ReadData) -> None:
        self._builder = builder
        self._image = image
        self._read_back = read_back

    async def reconcile(self, key: ObjectKey) -> Result:
        """Look at one JsonServer and do what is missing."""
        server = self._builder.primary.get(key)
        if server is None:
            return Result.done()
        if server.metadata.deleting:
            return await self._delete(server)
        if FINALIZER not in server.metadata.finalizers:
            # The webhook adds it on creation; this one came past it. Its change brings the key back.
            await finalizers.add(self._builder.client, JSONSERVERS, server, FINALIZER)
            return Result.done()
        problem, failures = _config_problem(server) or _template_problem(server), list[Exception]()
        rollout = Rollout()
        if problem is None:
            problem, rollout, failures = await self._apply(server)
        verification = None
        if needs_verification(server, problem, rollout):
            verification = await self._verify(server)
        await self._write_status(server, problem, rollout, verification)
        if failures:
            raise ExceptionGroup(f"JsonServer {key}", failures)
        return self._next_look(server, problem, verification)

    async def _apply(self, server: JsonServer) -> tuple[SyncProblem | None, Rollout, list[Exception]]:
        # The data first: pods that start before it would serve what was there before.
        results = await gather_children(self._ensure(server, desired.CONFIG_MAPS, desired.config_map(server)))
        if not isinstance(results[0], Exception):
            results += await gather_children(
                self._ensure(server, desired.SERVICES, desired.service(server)),
                self._ensure(server, desired.DEPLOYMENTS, desired.deployment(server, self._image)),
            )
        errors = [result for result in results if isinstance(result, Exception)]
        children = [result for result in results if isinstance(result, Child)]
        rollout = children[-1].state if len(children) == 3 else Rollout()
        told = [
            error for error in errors if not is_transient(error, self._builder.queue.failures[server.key])
        ]
        if errors and not told:
            raise ExceptionGroup(f"JsonServer {server.key}", errors)
        retry = [error for error in errors if not is_blocked_by_others(error)]
        return _problem(told, children), rollout, retry

    def _ensure(self, server: JsonServer, resource: Resource, body: JsonObject) -> Awaitable[Child[Any]]:
        return self._builder.children.ensure(server, resource, body)

    async def _delete(self, server: JsonServer) -> Result:
        if FINALIZER not in server.metadata.finalizers:
            return Result.done()
        types = (desired.DEPLOYMENTS, desired.SERVICES, desired.CONFIG_MAPS)
        gone = [await self._builder.children.remove(server, kind, server.metadata.name) for kind in types]
        if all(gone):
            await finalizers.remove(self._builder.client, JSONSERVERS, server, FINALIZER)
        # The end of each child brings the key back; the delay is for the one that goes unnoticed.
        return Result.done() if all(gone) else Result.after(_LOOK_AGAIN)

    async def _verify(self, server: JsonServer) -> Verification:
        url = f"{desired.address(server)}/db"
        served, trouble = await self._read_back(url)
        if served is None:
            return Verification(Reason.UNREACHABLE, f"{url} could not be read from here: {trouble}")
        if _same_data(served, server.spec.json_config):
            return Verification(Reason.DATA_EQUAL, f"{url} serves the data of the spec")
        return Verification(Reason.DATA_DIFFERS, f"{url} serves other data than the spec holds")

    async def _write_status(
        self,
        server: JsonServer,
        problem: SyncProblem | None,
        rollout: Rollout,
        verification: Verification | None,
    ) -> None:
        doubts = (
            jsonconfig.examine(server.spec.json_config).doubts if _stuck(server, problem, rollout) else ()
        )
        wanted = status_of(server, problem, rollout, verification, doubts)
        now = self._builder.clock.now()
        merged = conditions.merged(
            server.status.conditions, wanted.conditions, server.metadata.generation, now
        )
        status = msgspec.structs.replace(wanted, conditions=merged)
        if await self._builder.status.write(server, server.status, status):
            self._announce(server, status.message, problem)

    def _announce(self, server: JsonServer, message: str, problem: SyncProblem | None) -> None:
        """Tell of trouble and of its end; that all went well from the start is no news."""
        if message == server.status.message or (problem is None and server.status.state is not State.ERROR):
            return
        kind, reason = (WARNING, problem.reason) if problem else (NORMAL, Reason.APPLIED)
        self._builder.events.record(JSONSERVERS, server.key, server.metadata.uid, kind, reason, message)

    def _next_look(
        self, server: JsonServer, problem: SyncProblem | None, verification: Verification | None
    ) -> Result:
        if problem is not None and problem.reason is Reason.FOREIGN_OBJECT:
            return Result.after(_LOOK_AGAIN)
        if verification is not None and verification.reason is not Reason.DATA_EQUAL:
            return Result.after(verification_delay(server, self._builder.clock.now()))
        return Result.done()


def _config_problem(server: JsonServer) -> SyncProblem | None:
    config = server.spec.json_config
    if server.status.config_hash == desired.config_hash(config):
        return None  # known to be good, and parsing a mebibyte takes its time
    wrong = jsonconfig.examine(config).problem
    return SyncProblem(Reason.INVALID_CONFIG, NOT_A_JSON_OBJECT, wrong) if wrong is not None else None


def _template_problem(server: JsonServer) -> SyncProblem | None:
    """The webhooks refuse such a template, but nobody may gain an identity by coming past them."""
    spec = server.spec
    errors = template_errors(msgspec.to_builtins(spec.template), server.metadata.name)
    if spec.cas_config is not None:
        errors += config_errors(msgspec.to_builtins(spec.cas_config))
    return SyncProblem(Reason.INVALID_TEMPLATE, "; ".join(map(str, errors))) if errors else None


def _problem(errors: list[Exception], children: list[Child[Any]]) -> SyncProblem | None:
    for error in errors:
        if isinstance(error, ForeignObject):
            return SyncProblem(Reason.FOREIGN_OBJECT, str(error))
        text = error.message if isinstance(error, ApiError) else str(error)
        return SyncProblem(Reason.APPLY_FAILED, text)
    if any(child.deleting for child in children):
        return SyncProblem(
            Reason.BEING_DELETED, "a child is still being deleted; it is made again when it is gone"
        )
    return None


def _stuck(server: JsonServer, problem: SyncProblem | None, rollout: Rollout) -> bool:
    """Whether there are pods, and none of them serves."""
    wanted = problem is None and server.spec.replicas > 0
    return wanted and rollout.status.replicas > 0 and rollout.status.available_replicas == 0


def _same_data(served: bytes, config: str) -> bool:
    try:
        return bool(msgspec.json.decode(served) == msgspec.json.decode(config))
    except DECODE_ERRORS:
        return False


def build(manager: Manager, *, image: str, read_back: ReadData, workers: int = 8) -> JsonServerController:
    """Wire the controller into a process."""
    builder = Builder(manager, "jsonserver", JSONSERVERS, JsonServer)
    builder.owns(desired.CONFIG_MAPS, labels=desired.SELECTOR)
    builder.owns(desired.SERVICES, labels=desired.SELECTOR)
    builder.owns(
        desired.DEPLOYMENTS,
        DeploymentView,
        state=lambda view: Rollout(view.metadata.generation, view.status),
        labels=desired.SELECTOR,
    )
    controller = JsonServerController(builder, image, read_back)
    builder.build(unless_suspended(builder, controller.reconcile), workers=workers)
    return controller
