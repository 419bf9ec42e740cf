"""Requests to the API server: verb, resource and object.

`parse` derives them from method and path as the API server does. `matching` builds the predicates by which faults and
assertions select requests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

APPLY = "application/apply-patch"
WRITES = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
QUESTIONS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups whose objects are created to ask something; nothing is stored."""
CHATTER = frozenset({("coordination.k8s.io", "leases"), ("events.k8s.io", "events"), ("", "events")})
"""Written at times that depend on clocks, so numbering them would make numbers meaningless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request in the terms of the API conventions; absent parts are empty strings."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    path: str = ""
    query: Mapping[str, str]

    @property
    def mutating(self) -> bool:
        """Return whether the request can change stored objects."""
        return self.verb in WRITES and "dryRun" not in self.query and self.group not in QUESTIONS

    def __str__(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path}"
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        kind = f"{kind}/{self.subresource}" if self.subresource else kind
        return " ".join(
            (self.verb, kind, "/".join(part for part in (self.namespace, self.name) if part))
        ).rstrip()


Predicate = Callable[[Request], bool]


def parse(method: str, path: str, query: Mapping[str, str], content_type: str = "") -> Request:
    """Parse a request as the API server's own resolver does."""
    parts = [part for part in path.split("/") if part]
    group = version = ""
    match parts:
        case ["api", version, _, *_]:
            rest = parts[2:]
        case ["apis", group, version, _, *_]:
            rest = parts[3:]
        case _:
            return Request(verb=method.lower(), path=path, query=query)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
    resource, name, *more = [*rest, ""]
    return Request(
        verb=_verb(method, query, content_type, named=bool(name)),
        group=group,
        version=version,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource="/".join(part for part in more if part),
        path=path,
        query=query,
    )


def _verb(method: str, query: Mapping[str, str], content_type: str, *, named: bool) -> str:
    match method:
        case "GET" | "HEAD" if query.get("watch", "").lower() in ("1", "true"):
            return "watch"
        case "GET" | "HEAD":
            return "get" if named else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "apply" if content_type.startswith(APPLY) else "patch"
        case "DELETE":
            return "delete" if named else "deletecollection"
        case _:
            return method.lower()


def anything(_: Request) -> bool:
    """Match every request."""
    return True


def changes_state(request: Request) -> bool:
    """Match writes whose order is the same in every run: no Leases, no Events."""
    return request.mutating and (request.group, request.resource) not in CHATTER


def matching(
    verb: str | None = None,
    resource: str | None = None,
    *,
    group: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> Predicate:
    """Match requests that have all given parts; `verb` may list several: `"create|apply"`."""
    verbs = verb.split("|") if verb else None

    def match(request: Request) -> bool:
        wanted = (
            (resource, request.resource),
            (group, request.group),
            (namespace, request.namespace),
            (name, request.name),
            (subresource, request.subresource),
        )
        return (verbs is None or request.verb in verbs) and all(want in (None, seen) for want, seen in wanted)

    return match
