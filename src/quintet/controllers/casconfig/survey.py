"""Finds the kinds, the possible targets and the sources of a config, using watches as a cache."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from quintet.apis.casconfig import CASConfig
from quintet.apis.casconfig.kinds import Resolution, as_text, find_recorded, forbidden_reason
from quintet.apis.casconfig.places import Path
from quintet.apis.casconfig.scope import PROTECTED, namespaces_in_scope, out_of_scope
from quintet.apis.casconfig.sources import Resolved, is_secret, key_of, resolve_sources
from quintet.apis.casconfig.spec import MOST_NAMES, FromOperation, Level, Policy
from quintet.apis.casconfig.template import POD
from quintet.apis.casconfig.types import MOST_KINDS, SERVICE_ACCOUNT, Reach
from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.controllers.casconfig.decide.plan import Reason
from quintet.controllers.casconfig.kinds import CACHE_SECONDS, RETRY_SECONDS, Kinds, NotPublishedError
from quintet.controllers.casconfig.watches import ActiveWatch, CachedObject, Watches, WatchScope
from quintet.kube.errors import NotFound

EVERYWHERE = "*"
MOST_BYTES = 256 * 1024
"""Of the namespaces in `status.reach`."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why a config cannot be applied now."""

    reason: Reason
    message: str
    retry_after: float | None = None
    """Seconds until a retry, if no event announces the change."""


@dataclass(slots=True)
class Survey:
    """What was found for one config."""

    service_account: ObjectKey
    watches: dict[WatchScope, ActiveWatch] = field(default_factory=dict)
    pods: dict[Resource, Path | None] = field(default_factory=dict)
    sources: Resolved = field(default_factory=lambda: Resolved({}))
    problem: Blocker | None = None
    unserved: list[Reach] = field(default_factory=list)
    """Former target kinds that the API server does not serve now."""
    retry_after: float | None = None
    """Seconds until new kinds may be served."""

    def objects(self) -> Iterator[tuple[WatchScope, CachedObject]]:
        """Yield the objects that may be targets, or may have changes of the config."""
        for scope, active in self.watches.items():
            if not scope.name and active.store.synced.is_set():
                for obj in list(active.store):
                    yield scope, obj


class Surveyor:
    """Surveys the objects of configs."""

    def __init__(self, kinds: Kinds, watches: Watches, operator: str) -> None:
        self._kinds = kinds
        self._watches = watches
        self._operator = operator

    def forget(self, config: ObjectKey) -> None:
        """Stop the watches of a deleted config."""
        self._watches.set_scopes(config, ())

    async def survey(self, config: CASConfig) -> Survey:
        """Find everything that a config names, and everything that it has changed before."""
        survey = Survey(_service_account(config))
        try:
            optional, named = await self._target_scopes(config, survey)
            before = await self._reached_scopes(config.status.reach, survey)
            sources = await self._source_scopes(config, survey)
        except NotPublishedError as error:
            survey.problem = Blocker(Reason.LOOKING, str(error), retry_after=2.0)
            return survey
        survey.problem = survey.problem or self._out_of_scope(config)
        if survey.problem is not None:
            # Objects with earlier changes are still watched, so that these can be undone.
            survey.watches = self._watches.set_scopes(config.key, before)
            return survey
        survey.watches = self._watches.set_scopes(config.key, {*named, *optional, *before, *sources.values()})
        survey.problem = self._trouble(survey, {*named, *before, *sources.values()}, optional)
        survey.sources = self._values(config, survey, sources)
        return survey

    async def survey_reach(self, config: CASConfig) -> Survey:
        """Find only what a config has changed before."""
        survey = Survey(_service_account(config))
        try:
            scopes = await self._reached_scopes(config.status.reach, survey)
        except NotPublishedError as error:
            survey.problem = Blocker(Reason.LOOKING, str(error), retry_after=2.0)
            return survey
        survey.watches = self._watches.set_scopes(config.key, scopes)
        survey.problem = self._trouble(survey, scopes, ()) or await self._find_hidden_kind(survey)
        return survey

    async def _find_hidden_kind(self, survey: Survey) -> Blocker | None:
        """Return the problem of a former target kind that is unserved but not known to be deleted."""
        hidden = [each.kind for each in survey.unserved if not await self._kinds.is_gone(each.kind)]
        if not hidden:
            return None
        message = f"the API server has no kind '{hidden[0]}' at the moment"
        return Blocker(Reason.LOOKING, message, retry_after=RETRY_SECONDS)

    async def _target_scopes(
        self, config: CASConfig, survey: Survey
    ) -> tuple[set[WatchScope], set[WatchScope]]:
        """Return the optional scopes (skipped without permission) and the required ones."""
        optional, named = set[WatchScope](), set[WatchScope]()
        for policy in config.spec.policies:
            if policy.include.empty:
                continue
            whole_pods = bool(policy.include.service_accounts)
            if not policy.include.kinds:
                survey.retry_after = CACHE_SECONDS
                for resource in await self._kinds.with_templates():
                    optional |= await self._scopes_for(config, policy, resource, survey, whole_pods)
            for text in policy.include.kinds:
                found = await self._kinds.resolve(text)
                problem = self._unusable(config, policy, text, found)
                if problem is not None:
                    survey.problem = survey.problem or problem
                elif found.resource is not None:
                    named |= await self._scopes_for(config, policy, found.resource, survey, whole_pods)
        return optional - named, named

    def _unusable(self, config: CASConfig, policy: Policy, text: str, found: Resolution) -> Blocker | None:
        where, resource = f"policy {policy.name}, include.kinds", found.resource
        if resource is None:
            return Blocker(Reason.KIND, f"{where}: {found.problem}", retry_after=30.0)
        if why := forbidden_reason(resource.group, resource.kind):
            return Blocker(Reason.KIND, f"{where}: a {resource.kind} is never a target: {why}")
        if not resource.namespaced and config.spec.scope.level is not Level.CLUSTER:
            return Blocker(
                Reason.KIND, f"{where}: a {text} is cluster-scoped, which requires spec.scope.level cluster"
            )
        return None

    async def _scopes_for(
        self, config: CASConfig, policy: Policy, resource: Resource, survey: Survey, whole_pods: bool
    ) -> set[WatchScope]:
        pod = survey.pods[resource] = await self._kinds.pod(resource)
        if self._kinds.is_unpublished(resource):
            survey.retry_after = CACHE_SECONDS
        whole = pod is not None and (pod != POD or whole_pods)
        return {
            WatchScope(survey.service_account, resource, namespace, whole)
            for namespace in self._namespaces(config, policy, resource)
        }

    def _namespaces(self, config: CASConfig, policy: Policy, resource: Resource) -> set[str]:
        """Return the namespaces to watch; an empty name means all."""
        scope = namespaces_in_scope(config.spec, config.key.namespace)
        if not resource.namespaced:
            return {""} if scope is None else set()
        narrowed = set(policy.include.namespaces)
        if scope is None:
            return narrowed or {""}
        return set(scope) & narrowed if narrowed else set(scope)

    def _out_of_scope(self, config: CASConfig) -> Blocker | None:
        """Return the problem of a named namespace that no config may change."""
        spec, own = config.spec, config.key.namespace
        named = {
            *(namespaces_in_scope(spec, own) or ()),
            *(each for p in spec.policies for each in p.include.namespaces),
        }
        for namespace in sorted(named & {PROTECTED, self._operator}):
            if why := out_of_scope(spec, own, namespace, self._operator):
                return Blocker(Reason.OUT_OF_SCOPE, f"{why}: name other namespaces")
        return None

    async def _reached_scopes(self, reach: Iterable[Reach], survey: Survey) -> set[WatchScope]:
        """Return the scopes that the config has changed before."""
        scopes = set[WatchScope]()
        for each in reach:
            # Use the version that is watched anyway.
            resource = find_recorded(each.kind, list(survey.pods)) or await self._kinds.find_recorded(
                each.kind
            )
            if resource is None:
                survey.unserved.append(each)
                survey.retry_after = CACHE_SECONDS
                continue
            pod = survey.pods[resource] = await self._kinds.pod(resource)
            whole = pod not in (None, POD)
            scopes |= {
                WatchScope(survey.service_account, resource, "" if where == EVERYWHERE else where, whole)
                for where in each.namespaces
            }
        return scopes

    async def _source_scopes(self, config: CASConfig, survey: Survey) -> dict[FromOperation, WatchScope]:
        scopes = {}
        for source in config.spec.sources():
            found = await self._kinds.resolve(source.kind)
            if found.resource is None:
                message = f"from {source.kind} {source.name}: {found.problem}"
                survey.problem = survey.problem or Blocker(Reason.KIND, message, retry_after=30.0)
                continue
            key = key_of(source, config.key.namespace)
            namespace = key.namespace if found.resource.namespaced else ""
            # Only the metadata of Secrets is read.
            whole = not is_secret(source)
            scopes[source] = WatchScope(survey.service_account, found.resource, namespace, whole, key.name)
        return scopes

    def _trouble(
        self, survey: Survey, needed: Iterable[WatchScope], optional: Iterable[WatchScope]
    ) -> Blocker | None:
        user = f"ServiceAccount {survey.service_account}"
        waiting = False
        for scope in needed:
            active = survey.watches[scope]
            if isinstance(active.error, NotFound):
                return self._not_served(scope.resource)
            if active.error is not None:
                return _watch_problem(user, scope, active)
            waiting = waiting or not active.store.synced.is_set()
        if waiting or any(not _has_result(survey.watches[scope]) for scope in optional):
            return Blocker(Reason.LOOKING, "looking for targets")
        if optional and not needed and all(survey.watches[scope].error for scope in optional):
            for scope in optional:
                if not survey.watches[scope].is_refused:
                    return _watch_problem(user, scope, survey.watches[scope])
            return Blocker(
                Reason.FORBIDDEN, f"{user} has no permission to list and watch any kind with a pod template"
            )
        return None

    def _not_served(self, resource: Resource) -> Blocker:
        message = f"the API server has no kind '{as_text(resource)}' any more"
        if self._kinds.invalidate():
            return Blocker(Reason.LOOKING, message, retry_after=2.0)
        return Blocker(Reason.KIND, message, retry_after=30.0)

    def _values(
        self, config: CASConfig, survey: Survey, sources: dict[FromOperation, WatchScope]
    ) -> Resolved:
        def object_of(source: FromOperation) -> JsonObject | None:
            active = survey.watches.get(sources[source]) if source in sources else None
            found = next(iter(active.store), None) if active is not None else None
            return found.decode() if found is not None and not found.deleting else None

        return resolve_sources(config.spec.sources(), config.key.namespace, object_of)


def reach_of(scopes: Iterable[WatchScope]) -> tuple[Reach, ...]:
    """Return scopes as `status.reach` records them."""
    found: dict[str, set[str]] = {}
    for scope in scopes:
        found.setdefault(as_text(scope.resource), set()).add(scope.namespace or EVERYWHERE)
    return tuple(
        Reach(kind, (EVERYWHERE,) if EVERYWHERE in where else tuple(sorted(where)))
        for kind, where in sorted(found.items())
    )


def is_too_large(reach: Collection[Reach]) -> bool:
    """Return whether a status cannot hold a reach."""
    names = [each.namespaces for each in reach]
    return (
        len(reach) > MOST_KINDS
        or any(len(each) > MOST_NAMES for each in names)
        or sum(len(name) + 3 for each in names for name in each) > MOST_BYTES
    )


def union_of(one: Iterable[Reach], other: Iterable[Reach]) -> tuple[Reach, ...]:
    """Return what is in one of two reaches, or in both."""
    found: dict[str, set[str]] = {}
    for each in (*one, *other):
        found.setdefault(each.kind, set()).update(each.namespaces)
    return tuple(
        Reach(kind, (EVERYWHERE,) if EVERYWHERE in where else tuple(sorted(where)))
        for kind, where in sorted(found.items())
    )


def _service_account(config: CASConfig) -> ObjectKey:
    return ObjectKey(config.key.namespace, SERVICE_ACCOUNT)


def _watch_problem(user: str, scope: WatchScope, active: ActiveWatch) -> Blocker:
    where = f"in namespace {scope.namespace}" if scope.namespace else "in the whole cluster"
    what = f"{scope.resource.qualified} {where}"
    if not active.is_refused:
        message = f"the API server cannot list {what}: {_error_text(active.error)}; the request is retried"
        return Blocker(Reason.NOT_SHOWN, message)
    message = (
        f"{user} cannot list and watch {what}: "
        f"{_error_text(active.error)}. Bind it to a role that allows get, list, watch and patch there"
    )
    return Blocker(Reason.FORBIDDEN, message)


def _has_result(active: ActiveWatch) -> bool:
    return active.store.synced.is_set() or active.error is not None


def _error_text(error: Exception | None) -> str:
    return str(getattr(error, "message", error))
