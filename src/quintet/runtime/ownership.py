"""Children as the cache holds them, and whether they still match what was applied.

The API server records per field manager which fields it set last. Our apply leaves a digest of what was
applied in an annotation; a change of one of our fields by another manager removes that field from our record.
Together they reveal drift without the whole object in the cache: the digest names *what* was applied, the
record shows that *nobody has changed it since*.
"""

import functools
import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from quintet.apis.meta import JsonObject, Object, ObjectKey, ObjectMeta, Resource, Struct

APPLIED = "quintet.dev/applied"
"""Annotation on every child: the uid of its owner, and the digest of what was applied."""

# fmt: off
ATOMIC = frozenset({
    "accessModes", "add", "args", "command", "configMapKeyRef", "drop", "egress", "envFrom", "fieldRef",
    "httpHeaders", "ingress", "items", "matchExpressions", "nodeSelector", "podSelector", "policyTypes",
    "resourceFieldRef", "roleRef", "rules", "secretKeyRef", "selector", "subjects", "supplementalGroups",
    "tolerations", "verbs", "volumeClaimTemplates",
})
# fmt: on
"""Fields that the API treats as one value wherever they occur. A name that is missing here costs one needless
apply per child; a name too many hides changes, so a test compares this set with the API server."""

_OWNER = "@owner"
# The API server does not record these in managedFields.
_UNRECORDED = ("apiVersion", "kind")
_UNRECORDED_METADATA = ("name", "namespace", "uid", "resourceVersion")

S = TypeVar("S")
V = TypeVar("V", bound="View")


class ManagedFields(Struct, frozen=True):
    """The fields that one field manager set last."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata with managedFields."""

    managed_fields: tuple[ManagedFields, ...] = ()


class View(Object, frozen=True):
    """Base of views of children: the fields that their owner reads."""

    metadata: ManagedMeta = ManagedMeta()


Record = tuple[JsonObject, bool]
"""Our fields as in managedFields, and whether an apply (else a POST) set them."""


class Child(Struct, Generic[S], frozen=True):
    """A child in the cache: half a kilobyte, whatever the size of the object."""

    key: ObjectKey
    version: int
    uid: str
    owner_name: str
    owner_uid: str
    """The uid of its controller owner reference, if it has one."""
    applied_for: str
    """The uid of the owner that it was applied for, from the annotation."""
    applied: str
    """The digest of what was applied, from the annotation."""
    deleting: bool
    fields: str
    """Our entries of managedFields as a JSON list, interned: similar children share it."""
    created_entry: int | None
    """The index of the managedFields entry of our POST, while it is our only entry."""
    state: S


def project(owner: Resource, manager: str, state: Callable[[V], S]) -> Callable[[V], Child[S]]:
    """Return a function that reduces a view to the child that the cache holds."""

    def to_child(view: V) -> Child[S]:
        meta = view.metadata
        owner_name = owner_uid = ""
        for reference in meta.owner_references:
            if reference.controller:
                owner_uid = sys.intern(reference.uid)
                if reference.kind == owner.kind and reference.api_version.partition("/")[0] == owner.group:
                    owner_name = sys.intern(reference.name)
        ours = [
            (position, entry)
            for position, entry in enumerate(meta.managed_fields)
            if entry.manager == manager and not entry.subresource
        ]
        applied_for, _, applied = meta.annotations.get(APPLIED, "").partition("/")
        records = (f'["{entry.operation}",{bytes(entry.fields).decode()}]' for _, entry in ours)
        fields = f"[{','.join(records)}]"
        if owner_uid:
            fields = fields.replace(owner_uid, _OWNER)
        return Child(
            key=ObjectKey(sys.intern(meta.namespace), meta.name),
            version=view.version,
            uid=meta.uid,
            owner_name=owner_name,
            owner_uid=owner_uid,
            applied_for=sys.intern(applied_for),
            applied=applied,
            deleting=meta.deleting,
            fields=sys.intern(fields),
            created_entry=ours[0][0] if len(ours) == 1 and ours[0][1].operation == "Update" else None,
            state=state(view),
        )

    return to_child


def digest(body: JsonObject) -> str:
    """Return a digest of the desired object."""
    return hashlib.blake2b(msgspec.json.encode(body, order="sorted"), digest_size=10).hexdigest()


def with_ownership(body: JsonObject, owner: Object, owner_type: Resource) -> JsonObject:
    """Return the desired object with owner reference and annotation, as it is sent."""
    reference = {
        "apiVersion": owner_type.api_version,
        "kind": owner_type.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {**body["metadata"], "ownerReferences": [reference]}
    marked = {**body, "metadata": metadata}
    mark = f"{owner.metadata.uid}/{digest(marked)}"
    metadata["annotations"] = {**metadata.get("annotations", {}), APPLIED: mark}
    return marked


def belongs_to(child: Child[Any], owner: Object) -> bool:
    """Return whether a child belongs to this very owner."""
    if child.owner_uid:
        return child.owner_uid == owner.metadata.uid
    # It has no controller. It is still ours if our annotation names this owner and nobody else has set
    # the annotation since: somebody only removed our owner reference.
    mark = {"metadata": {"annotations": {APPLIED: ""}}}
    return child.applied_for == owner.metadata.uid and covers(_records(child.fields), mark)


def is_unchanged(child: Child[Any], body: JsonObject) -> bool:
    """Return whether a child still matches `body` (from `with_ownership`)."""
    if f"{child.applied_for}/{child.applied}" != body["metadata"]["annotations"][APPLIED]:
        return False
    desired = {name: value for name, value in body.items() if name not in _UNRECORDED}
    desired["metadata"] = {
        name: value for name, value in body["metadata"].items() if name not in _UNRECORDED_METADATA
    }
    references = body["metadata"].get("ownerReferences")
    if references and references[0]["uid"] == child.owner_uid:
        desired["metadata"]["ownerReferences"] = [references[0] | {"uid": _OWNER}]
    return covers(_records(child.fields), desired)


# Similar children share their record, so there are few, and each is parsed often.
@functools.lru_cache(maxsize=256)
def _records(fields: str) -> list[Record]:
    return [(entries, operation == "Apply") for operation, entries in json.loads(fields)]


def covers(records: list[Record], value: Any, atomic: bool = False) -> bool:
    """Return whether at least one of the records contains each leaf of a value.

    An empty record covers everything below it: a scalar, or a collection that the API treats as one value.
    But a POST also records the maps around its fields, and such a map looks just as empty once another
    manager has set everything in it; `atomic` distinguishes the two.
    """
    whole = atomic or not value or not isinstance(value, dict | list)
    for fields, applied in records:
        if not fields and (whole or applied):
            return True
    if not records or not isinstance(value, dict | list):
        return False
    if isinstance(value, list):
        # The record of an item contains at least its keys while we own it, so an empty one is unambiguous.
        return all(covers(item_records(records, item), item, True) for item in value)
    # A loop is faster than a generator: this runs for every field of every child at start.
    for name, item in value.items():
        if item is None:
            continue
        field = f"f:{name}"
        below = [(fields[field], applied) for fields, applied in records if field in fields]
        if not covers(below, item, name in ATOMIC):
            return False
    return True


def item_records(records: list[Record], item: Any) -> list[Record]:
    """Return the parts of a list's records that belong to one item."""
    return [
        (below, applied)
        for fields, applied in records
        for name, below in fields.items()
        if is_key_of(name, item)
    ]


def is_key_of(name: str, item: Any) -> bool:
    """Return whether a name in managedFields is the key of a list item."""
    if name.startswith("k:") and isinstance(item, dict):
        # The server adds the default of a key that we left out (protocol: TCP).
        return all(item.get(key, desired) == desired for key, desired in _parse(name[2:]).items())
    return name.startswith("v:") and bool(_parse(name[2:]) == item)


@functools.lru_cache(maxsize=1024)
def _parse(key: str) -> Any:
    return json.loads(key)
