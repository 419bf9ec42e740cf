"""Which kinds can be targets, and which kind a text means. Pure."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from quintet.apis.meta import Resource

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")

_FORBIDDEN_GROUPS: Final = {
    "rbac.authorization.k8s.io": "it grants rights",
    "admissionregistration.k8s.io": "it decides what the API server admits",
    "apiextensions.k8s.io": "it defines other kinds",
    "apiregistration.k8s.io": "it decides who serves an API",
    "certificates.k8s.io": "it grants identities",
    "authentication.k8s.io": "it is about identities",
    "authorization.k8s.io": "it is about rights",
}
_FORBIDDEN_KINDS: Final = {
    ("", "Secret"): "it holds what must not be copied around",
    ("", "ServiceAccount"): "it is an identity",
    ("", "Node"): "it belongs to the cluster",
    ("", "Namespace"): "it belongs to the cluster, and its labels decide what is allowed inside",
    ("", "Event"): "it only tells what happened",
    ("events.k8s.io", "Event"): "it only tells what happened",
    ("coordination.k8s.io", "Lease"): "it is rewritten every few seconds",
    ("openebs.io", "CASConfig"): "a config must not change configs",
}


class KindName(NamedTuple):
    """A kind as somebody wrote it; without a group it may mean several."""

    kind: str
    group: str | None = None
    version: str | None = None


class Resolution(NamedTuple):
    """What a text means: one resource, or why none."""

    resource: Resource | None
    problem: str = ""


def parse_kind(text: str) -> KindName | None:
    """`Kind`, `group/version/Kind`, or `v1/Kind` for what has no group; None for anything else."""
    match text.split("/"):
        case [kind] if kind:
            return KindName(kind)
        case [version, kind] if kind and _VERSION.fullmatch(version):
            return KindName(kind, "", version)
        case [group, version, kind] if group and kind and _VERSION.fullmatch(version):
            return KindName(kind, group, version)
    return None


def names(text: str, resource: Resource) -> bool:
    """Whether a text means a resource. The version does not matter: an object has the same in all."""
    found = parse_kind(text)
    return (
        found is not None and found.kind == resource.kind and found.group in (None, resource.group)
    )  # fmt: skip


def resolve_kind(text: str, known: Iterable[Resource]) -> Resolution:
    """The one resource that a text means, of those that the API server has."""
    wanted = parse_kind(text)
    if wanted is None:
        return Resolution(None, f"'{text}' is neither Kind nor group/version/Kind")
    fitting = [
        each
        for each in known
        if names(text, each) and wanted.version in (None, each.version)
    ]  # fmt: skip
    by_group = {each.group: each for each in reversed(fitting)}
    if len(by_group) > 1:
        candidates = ", ".join(sorted(as_text(each) for each in by_group.values()))
        return Resolution(None, f"'{text}' may mean {candidates}: write the one that is meant")
    if not by_group:
        return Resolution(None, f"the API server has no kind '{text}'")
    return Resolution(next(iter(by_group.values())))


def find_recorded(text: str, known: Iterable[Resource]) -> Resource | None:
    """The resource of a kind that `as_text` wrote down: in that version, or else in the first there is.

    A version may be served no longer while its objects still are.
    """
    wanted = parse_kind(text)
    fitting = [each for each in known if names(text, each)]
    same = (each for each in fitting if wanted is not None and each.version == wanted.version)
    return next(same, next(iter(fitting), None))


def as_text(resource: Resource) -> str:
    """A kind so that there is no doubt which."""
    return f"{resource.api_version}/{resource.kind}"


def forbidden_reason(group: str, kind: str) -> str | None:
    """Why objects of a kind are never targets; None if they may be."""
    return _FORBIDDEN_GROUPS.get(group) or _FORBIDDEN_KINDS.get((group, kind))


def forbidden_text(text: str) -> str | None:
    """The same for a kind as somebody wrote it; without a group, whatever group it might mean."""
    found = parse_kind(text)
    if found is None:
        return None
    if found.group is not None:
        return forbidden_reason(found.group, found.kind)
    return _FORBIDDEN_BARE.get(found.kind)


# Kinds of the forbidden groups that people write without their group.
_FORBIDDEN_BARE: Final = {kind: why for (_, kind), why in _FORBIDDEN_KINDS.items()} | {
    kind: _FORBIDDEN_GROUPS[group]
    for group, kinds in {
        "rbac.authorization.k8s.io": ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        "admissionregistration.k8s.io": (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ),
        "apiextensions.k8s.io": ("CustomResourceDefinition",),
        "apiregistration.k8s.io": ("APIService",),
        "certificates.k8s.io": ("CertificateSigningRequest",),
    }.items()
    for kind in kinds
}
