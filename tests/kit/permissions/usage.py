"""What accounts may do against what they did: finds rights that nobody uses, and those that are missing.

`kit.permissions.report` says who holds which rights, and is the program that prints what comes out.
"""

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
"""Stands in names for the account itself: that is called otherwise in another installation."""


class Asked(NamedTuple):
    """A request that an account made."""

    namespace: str
    """Of the account."""
    account: str
    verb: str
    group: str
    resource: str
    """With the subresource."""
    name: str = ""
    within: str = ""
    """The namespace of the object."""
    allowed: bool = True
    role: str = ""
    """By which it was allowed."""

    def __str__(self) -> str:
        return f"{self.verb} {_qualified(self.group, self.resource)} {self.name}".rstrip()


class Held(NamedTuple):
    """One verb on one resource of one rule."""

    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()
    own: bool = False
    """Only in the namespace of the account."""

    def covers(self, asked: Asked) -> bool:
        """Whether a request needed it."""
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
class Holder:
    """An account, however it is called, and what we ship it with."""

    name: str
    accounts: re.Pattern[str]
    held: tuple[Held, ...]
    given: frozenset[Held] = frozenset()
    """What it must hold because it gives it to others, for whichever names."""
    roles: re.Pattern[str] = re.compile("(?!)")
    """Other roles that it may be allowed something by: those that somebody binds to it on purpose."""
    together: bool = False
    """Whether it has just what others have, so that only what it is refused is of interest."""
    kept: frozenset[Held] = frozenset()
    """What is there for programs of others."""
    may_be_refused: bool = False
    refusals: frozenset[tuple[str, str, str]] = frozenset()
    """Group, resource, verb that some test wants to be refused."""


@dataclass(slots=True)
class Verdict:
    """What became of the rights of one holder."""

    holder: Holder
    used: Counter[Held] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    away: Counter[str] = field(default_factory=Counter)
    """Refused though it holds the right: the role was gone already, or not yet there."""
    lent: Counter[str] = field(default_factory=Counter)
    """Allowed by a role that is not ours, so that the tests do not show that ours would do."""
    requests: int = 0

    def reason(self, held: Held) -> str:
        """Why a right is there; empty if nobody knows."""
        if self.used[held]:
            return f"used, {self.used[held]} requests"
        if self.holder.together:
            return "held together with others"
        if held in self.holder.kept:
            return "for programs of others"
        if held._replace(names=()) in self.holder.given:
            return "given to others"
        if held.resource.endswith("/finalizers"):
            # The API server asks for it when an owner is named; that is no request of its own.
            return "asked by admission: integration/test_permissions.py"
        return ""

    @property
    def unused(self) -> list[Held]:
        return [held for held in self.holder.held if not self.reason(held)]


def expanded(rules: Iterable[JsonObject], account: str, *, own: bool = False) -> Iterator[Held]:
    """Every single right of some rules; the account's own name in them is taken out."""
    for rule in rules:
        names = tuple(name.replace(account, SELF) for name in rule.get("resourceNames", ()))
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Held(group, resource, verb, names, own)


def asked_in(event: Mapping[str, Any]) -> Iterator[Asked]:
    """The requests of accounts that an entry of an audit log tells of: none, one, or several."""
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
        yield Asked(*who.groups(), "impersonate", "", "serviceaccounts", other[2], other[1])
        who = other
    resource = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
    asked = Asked(
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
    # An apply that creates takes the right to create as well; the server asks for that by itself.
    if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == CREATED:
        yield asked._replace(verb="create")


def judged(holders: Iterable[Holder], asked: Iterable[Asked]) -> list[Verdict]:
    """Which right was needed for what."""
    verdicts = [Verdict(holder) for holder in holders]
    for each in asked:
        for verdict in verdicts:
            if verdict.holder.accounts.fullmatch(each.account):
                _note(verdict, each)
                break
    return verdicts


def _note(verdict: Verdict, asked: Asked) -> None:
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


def table(verdicts: Iterable[Verdict]) -> str:
    """For people: each holder, each right and why it is there."""
    lines = []
    for verdict in verdicts:
        held = verdict.holder.held
        lines.append(f"{verdict.holder.name}: {len(held)} rights, {verdict.requests} requests")
        lines += [f"  {verdict.reason(each) or 'UNUSED':<46} {each}" for each in held]
        lines += [f"  {f'REFUSED, {count} times':<46} {what}" for what, count in verdict.refused.items()]
        lines += [f"  {f'role away, {count} times':<46} {what}" for what, count in verdict.away.items()]
        lines += [f"  {f'NOT OURS, {count} times':<46} {what}" for what, count in verdict.lent.items()]
    return "\n".join(lines)


def summary(verdicts: Iterable[Verdict]) -> str:
    """A line for each holder."""
    head = ("rights", "used", "given", "admission", "other", "unused", "refused")
    lines = [f"{'account':<18}" + "".join(f"{word:>11}" for word in head)]
    for verdict in verdicts:
        reasons = [verdict.reason(each) for each in verdict.holder.held]
        counts = [sum(reason.startswith(word) for reason in reasons) for word in ("used", "given", "asked")]
        unused, refused = len(verdict.unused), len(verdict.refused) + len(verdict.lent)
        numbers = (len(reasons), *counts, len(reasons) - sum(counts) - unused, unused, refused)
        lines.append(f"{verdict.holder.name:<18}" + "".join(f"{number:>11}" for number in numbers))
    return "\n".join(lines)


def read(folder: Path) -> Iterator[Asked]:
    """Everything that was noted in a folder."""
    for path in sorted(folder.glob("*.log")):
        with path.open() as lines:
            for line in lines:
                yield from asked_in(json.loads(line))


def _qualified(group: str, resource: str) -> str:
    kind, slash, part = resource.partition("/")
    return f"{kind}.{group}{slash}{part}" if group else resource
