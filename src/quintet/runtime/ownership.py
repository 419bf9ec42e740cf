"""Children as the cache keeps them, and whether they still are as we applied them.

The API server records per field manager which fields it set last. Our own apply leaves a
digest of what was applied in an annotation; a foreign change to any field of ours takes
that field out of our record. So the two together tell drift without keeping the object:
the digest says *what* we wanted, the record says that *nobody changed it since*.
Pure functions only; `apply` acts on them.
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
"""Annotation on every child: for whom it was made, and the digest of what was applied."""

# fmt: off
ATOMIC = frozenset({
    "accessModes", "add", "args", "command", "configMapKeyRef", "drop", "egress", "envFrom", "fieldRef",
    "httpHeaders", "ingress", "items", "matchExpressions", "nodeSelector", "podSelector", "policyTypes",
    "resourceFieldRef", "roleRef", "rules", "secretKeyRef", "selector", "subjects", "supplementalGroups",
    "tolerations", "verbs", "volumeClaimTemplates",
})
# fmt: on
"""Fields that the API treats as one value wherever they occur. A name that is missing here costs
one needless apply per child; one that does not belong here hides changes, so a test asks the server."""

_OWNER = "@owner"
# The API server does not record these in managedFields.
_UNRECORDED = ("apiVersion", "kind")
_UNRECORDED_METADATA = ("name", "namespace", "uid", "resourceVersion")

S = TypeVar("S")
V = TypeVar("V", bound="View")


class ManagedFields(Struct, frozen=True):
    """The fields that one manager set last."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


class ManagedMeta(ObjectMeta, frozen=True):
    """Metadata together with who manages which field."""

    managed_fields: tuple[ManagedFields, ...] = ()


class View(Object, frozen=True):
    """Base for the part of a child that its owner reads; subclasses add what they need."""

    metadata: ManagedMeta = ManagedMeta()


Record = tuple[JsonObject, bool]
"""Fields of ours as the server recorded them, and whether by an apply (else by a POST)."""


class Child(Struct, Generic[S], frozen=True):
    """A child as the cache keeps it: half a kilobyte, whatever the size of the object."""

    key: ObjectKey
    version: int
    uid: str
    owner_name: str
    owner_uid: str
    """Of whoever controls it now, if anybody does."""
    made_for: str
    """The uid of the owner that it was applied for, as the annotation says."""
    applied: str
    """The digest of what was applied, as the annotation says."""
    deleting: bool
    fields: str
    """Our part of managedFields as a JSON list, interned: children of one shape share it."""
    created_entry: int | None
    """Where the record of our creation stands, while it is our only one."""
    state: S


def project(owner: Resource, manager: str, state: Callable[[V], S]) -> Callable[[V], Child[S]]:
    """How to make children of one owner type small."""

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
        made_for, _, applied = meta.annotations.get(APPLIED, "").partition("/")
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
            made_for=sys.intern(made_for),
            applied=applied,
            deleting=meta.deleting,
            fields=sys.intern(fields),
            created_entry=ours[0][0] if len(ours) == 1 and ours[0][1].operation == "Update" else None,
            state=state(view),
        )

    return to_child


def digest(body: JsonObject) -> str:
    """A short name for the exact content of an object that we want."""
    return hashlib.blake2b(msgspec.json.encode(body, order="sorted"), digest_size=10).hexdigest()


def as_applied(body: JsonObject, owner: Object, owner_type: Resource) -> JsonObject:
    """What is really sent for a child: the wanted object, marked as ours."""
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
    """Whether a child is ours to change, for this very owner."""
    if child.owner_uid:
        return child.owner_uid == owner.metadata.uid
    # Nobody controls it. It is still ours if we wrote into it whom we made it for, and nobody
    # changed that since: somebody merely took our owner reference away.
    mark = {"metadata": {"annotations": {APPLIED: ""}}}
    return child.made_for == owner.metadata.uid and covers(_records(child.fields), mark)


def untouched(child: Child[Any], body: JsonObject) -> bool:
    """Whether a child is exactly as `body` (made by `as_applied`) wants it."""
    if f"{child.made_for}/{child.applied}" != body["metadata"]["annotations"][APPLIED]:
        return False
    wanted = {name: value for name, value in body.items() if name not in _UNRECORDED}
    wanted["metadata"] = {
        name: value for name, value in body["metadata"].items() if name not in _UNRECORDED_METADATA
    }
    references = body["metadata"].get("ownerReferences")
    if references and references[0]["uid"] == child.owner_uid:
        wanted["metadata"]["ownerReferences"] = [references[0] | {"uid": _OWNER}]
    return covers(_records(child.fields), wanted)


# Children of one shape share their record, so there are few, and they are asked for again and again.
@functools.lru_cache(maxsize=256)
def _records(fields: str) -> list[Record]:
    return [(entries, operation == "Apply") for operation, entries in json.loads(fields)]


def covers(records: list[Record], value: Any, atomic: bool = False) -> bool:
    """Whether every leaf of a value stands in at least one of the field records.

    An empty record stands for all that is below it: a scalar, or a collection that the API
    treats as one value. But a POST also records the maps around its fields, and such a map
    looks just as empty once somebody else has taken everything in it; `atomic` tells which.
    """
    whole = atomic or not value or not isinstance(value, dict | list)
    for fields, applied in records:
        if not fields and (whole or applied):
            return True
    if not records or not isinstance(value, dict | list):
        return False
    if isinstance(value, list):
        # An item keeps at least its keys for as long as it is there, so an empty record is no doubt.
        return all(covers(_item(records, item), item, True) for item in value)
    # A loop and no generator: this is asked for every field of every child when a process starts.
    for name, item in value.items():
        if item is None:
            continue
        field = f"f:{name}"
        below = [(fields[field], applied) for fields, applied in records if field in fields]
        if not covers(below, item, name in ATOMIC):
            return False
    return True


def _item(records: list[Record], item: Any) -> list[Record]:
    """The parts of a list's records that speak of one item."""
    return [
        (below, applied)
        for fields, applied in records
        for name, below in fields.items()
        if _names(name, item)
    ]


def _names(name: str, item: Any) -> bool:
    if name.startswith("k:") and isinstance(item, dict):
        # A key that we left out was filled in by the server (protocol: TCP).
        return all(item.get(key, wanted) == wanted for key, wanted in _parsed(name[2:]).items())
    return name.startswith("v:") and bool(_parsed(name[2:]) == item)


@functools.lru_cache(maxsize=1024)
def _parsed(key: str) -> Any:
    return json.loads(key)
