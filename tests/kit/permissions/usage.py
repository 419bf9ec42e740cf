"""Compares permissions with audit logs: finds unused permissions and forbidden requests."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from quintet.apis.meta import JsonObject

ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
BINDING = re.compile(r'allowed by \w+ "[^"]+" of \w+ "([^"]+)"')
EVERYBODY = frozenset({"system:public-info-viewer", "system:discovery", "system:basic-user"})
"""Roles that every account of a cluster has."""
CREATED = 201
SELF = "{}"
"""Placeholder for the ServiceAccount's own name, which differs between installations."""


class AuditedRequest(NamedTuple):
    """A request of a ServiceAccount."""

    namespace: str
    """Namespace of the ServiceAccount."""
    account: str
    verb: str
    group: str
    resource: str
    """Including the subresource."""
    name: str = ""
    within: str = ""
    """The namespace of the object."""
    allowed: bool = True
    role: str = ""
    """The role that allowed it."""

    def __str__(self) -> str:
        return f"{self.verb} {_qualified(self.group, self.resource)} {self.name}".rstrip()


class Permission(NamedTuple):
    """One verb on one resource of one rule."""

    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()
    own: bool = False
    """Only in the namespace of the ServiceAccount."""

    def covers(self, asked: AuditedRequest) -> bool:
        """Return whether a request needs this permission."""
        same = (asked.group, asked.resource, asked.verb) == (self.group, self.resource, self.verb)
        name = asked.name.replace(asked.account, SELF)
        return (
            same
            and (not self.own or asked.within == asked.namespace)
            and (not self.names or name in self.names)
        )

    def __str__(self) -> str:
        only = f" ({', '.join(self.names)})" if 0 < len(self.names) <= 2 else f" ({len(self.names)} names)"
        where = ", own namespace" if self.own else ""
        return f"{self.verb} {_qualified(self.group, self.resource)}{only if self.names else ''}{where}"


@dataclass(frozen=True, slots=True)
class Subject:
    """The ServiceAccounts of one role, and the permissions that we ship for them."""

    name: str
    accounts: re.Pattern[str]
    held: tuple[Permission, ...]
    given: frozenset[Permission] = frozenset()
    """Permissions that it must hold because it grants them to others."""
    roles: re.Pattern[str] = re.compile("(?!)")
    """Other roles that may be bound to it on purpose."""
    together: bool = False
    """Whether it has the union of other subjects' permissions, so that only forbidden requests matter."""
    kept: frozenset[Permission] = frozenset()
    """Permissions for third-party programs."""
    may_be_refused: bool = False
    refusals: frozenset[tuple[str, str, str]] = frozenset()
    """Group, resource and verb that tests expect to be forbidden."""


@dataclass(slots=True)
class Usage:
    """How one subject used its permissions."""

    holder: Subject
    used: Counter[Permission] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    away: Counter[str] = field(default_factory=Counter)
    """Forbidden despite the permission: the role was already deleted or not yet applied."""
    lent: Counter[str] = field(default_factory=Counter)
    """Allowed by a foreign role, so that the tests do not show that ours suffices."""
    requests: int = 0

    def reason(self, held: Permission) -> str:
        """Return why the permission exists, or nothing if it is unused."""
        if self.used[held]:
            return f"used, {self.used[held]} requests"
        if self.holder.together:
            return "union of other subjects"
        if held in self.holder.kept:
            return "for third-party programs"
        if held._replace(names=()) in self.holder.given:
            return "granted to others"
        if held.resource.endswith("/finalizers"):
            # The API server checks it for owner references; that is not a separate request.
            return "checked by admission: integration/test_permissions.py"
        return ""

    @property
    def unused(self) -> list[Permission]:
        return [held for held in self.holder.held if not self.reason(held)]


def expand_rules(rules: Iterable[JsonObject], account: str, *, own: bool = False) -> Iterator[Permission]:
    """Yield every permission of some rules; the ServiceAccount's own name in them is replaced."""
    for rule in rules:
        names = tuple(name.replace(account, SELF) for name in rule.get("resourceNames", ()))
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Permission(group, resource, verb, names, own)


def requests_in(event: Mapping[str, Any]) -> Iterator[AuditedRequest]:
    """Yield the requests of ServiceAccounts in an audit event: none, one or several."""
    target = event.get("objectRef")
    who = ACCOUNT.fullmatch(event["user"].get("username", ""))
    if target is None or who is None:
        return
    notes = event.get("annotations", {})
    allowed = notes.get("authorization.k8s.io/decision") == "allow"
    role = BINDING.search(notes.get("authorization.k8s.io/reason", ""))
    if acting := event.get("impersonatedUser"):
        other = ACCOUNT.fullmatch(acting["username"])
        if other is None:
            return
        yield AuditedRequest(*who.groups(), "impersonate", "", "serviceaccounts", other[2], other[1])
        who = other
    resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
    asked = AuditedRequest(
        *who.groups(),
        event["verb"],
        target.get("apiGroup", ""),
        resource,
        target.get("name", ""),
        target.get("namespace", ""),
        allowed,
        role[1] if role else "",
    )
    yield asked
    # An apply that creates an object also needs the create permission.
    if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == CREATED:
        yield asked._replace(verb="create")


def compare(holders: Iterable[Subject], asked: Iterable[AuditedRequest]) -> list[Usage]:
    """Assign every request to its subject and return the usage of each."""
    verdicts = [Usage(holder) for holder in holders]
    for each in asked:
        for verdict in verdicts:
            if verdict.holder.accounts.fullmatch(each.account):
                _count(verdict, each)
                break
    return verdicts


def _count(verdict: Usage, asked: AuditedRequest) -> None:
    holder = verdict.holder
    verdict.requests += 1
    covering = [held for held in holder.held if held.covers(asked)]
    if not asked.allowed:
        wanted = holder.may_be_refused or (asked.group, asked.resource, asked.verb) in holder.refusals
        if not wanted:
            (verdict.away if covering else verdict.refused)[str(asked)] += 1
        return
    verdict.used.update(covering)
    if not covering and asked.role not in EVERYBODY and not holder.roles.fullmatch(asked.role):
        verdict.lent[f"{asked} by {asked.role or 'an unknown role'}"] += 1


def table(verdicts: Iterable[Usage]) -> str:
    """Format each subject with its permissions and why they exist."""
    lines = []
    for verdict in verdicts:
        held = verdict.holder.held
        lines.append(f"{verdict.holder.name}: {len(held)} permissions, {verdict.requests} requests")
        lines += [f"  {verdict.reason(each) or 'UNUSED':<46} {each}" for each in held]
        lines += [f"  {f'FORBIDDEN, {count} times':<46} {what}" for what, count in verdict.refused.items()]
        lines += [f"  {f'role missing, {count} times':<46} {what}" for what, count in verdict.away.items()]
        lines += [f"  {f'FOREIGN ROLE, {count} times':<46} {what}" for what, count in verdict.lent.items()]
    return "\n".join(lines)


def summary(verdicts: Iterable[Usage]) -> str:
    """Format one line per subject."""
    head = ("permissions", "used", "granted", "admission", "other", "unused", "forbidden")
    lines = [f"{'subject':<18}" + "".join(f"{word:>12}" for word in head)]
    for verdict in verdicts:
        reasons = [verdict.reason(each) for each in verdict.holder.held]
        counts = [
            sum(reason.startswith(word) for reason in reasons) for word in ("used", "granted", "checked")
        ]
        unused, refused = len(verdict.unused), len(verdict.refused) + len(verdict.lent)
        numbers = (len(reasons), *counts, len(reasons) - sum(counts) - unused, unused, refused)
        lines.append(f"{verdict.holder.name:<18}" + "".join(f"{number:>12}" for number in numbers))
    return "\n".join(lines)


def read(folder: Path) -> Iterator[AuditedRequest]:
    """Yield all requests in the audit logs of a folder."""
    for path in sorted(folder.glob("*.log")):
        with path.open() as lines:
            for line in lines:
                yield from requests_in(json.loads(line))


def _qualified(group: str, resource: str) -> str:
    kind, slash, part = resource.partition("/")
    return f"{kind}.{group}{slash}{part}" if group else resource
