"""Validates manifests without a cluster, with the functions that the webhooks use.

Only the kinds that occur are imported.
"""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, Any

from quintet import kinds
from quintet.apis.fields import ValidationResult
from quintet.authoring.documents import Document, find_files, read_documents, split_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.admission.review import Admission
    from quintet.apis.meta import JsonObject


class UnreadableFile(Exception):
    """A file that cannot be opened or read."""


def validate_document(document: Document, namespace: str) -> ValidationResult | None:
    """Validate one object as the API server and the webhooks do; None if it is of another product."""
    obj = document.value
    if document.problem:
        return ValidationResult((document.problem,))
    if not isinstance(obj, dict) or not all(isinstance(obj.get(key), str) for key in ("apiVersion", "kind")):
        return ValidationResult(("is not a Kubernetes object: apiVersion and kind must be set",))
    if not isinstance(obj.get("metadata"), dict | None):
        return ValidationResult(("metadata must be an object",))
    kind = obj["apiVersion"], obj["kind"]
    if not has_validation(*kind):
        problem = _suggest_kind(*kind)
        return ValidationResult((problem,)) if problem else None
    return _validate(kind, {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}})


def _validate(kind: tuple[str, str], obj: JsonObject) -> ValidationResult:
    """Validate in the order of the API server: defaults, schema, then the rules of the kind."""
    from quintet.admission.review import AdmissionRequest, Operation
    from quintet.apis.structural import schema_errors, with_schema_defaults
    from quintet.authoring.cel_rules import RULES

    schema, admission = load_kind(*kind)
    notes: tuple[str, ...] = ()
    errors = schema_errors(schema, obj, RULES)
    if errors:
        return ValidationResult(tuple(errors))
    obj = with_schema_defaults(schema, obj)
    if admission.default is not None:
        notes = admission.alias_warnings(obj) if admission.alias_warnings is not None else ()
        obj = admission.default(obj, Operation.CREATE)
        errors = schema_errors(schema, obj, RULES)
    if errors:
        return ValidationResult(tuple(errors), notes)
    where = {key: obj["metadata"].get(key, "") for key in ("namespace", "name")}
    result = admission.validate(AdmissionRequest(operation=Operation.CREATE, object=obj, **where))
    return ValidationResult(result.errors, (*notes, *result.warnings))


def apply_defaults(obj: JsonObject, namespace: str) -> JsonObject:
    """Return a valid object as the API server would store it, with all defaults."""
    from quintet.admission.review import Operation
    from quintet.apis.structural import with_schema_defaults

    kind = obj["apiVersion"], obj["kind"]
    if not has_validation(*kind):
        return obj
    schema, admission = load_kind(*kind)
    namespaced = {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}}
    read: JsonObject = with_schema_defaults(schema, namespaced)
    return admission.default(read, Operation.CREATE) if admission.default is not None else read


def has_validation(api_version: str, kind: str) -> bool:
    """Return whether objects of this kind can be validated without a cluster."""
    found = kinds.find(api_version, kind)
    return found is not None and bool(found.admission)


@cache
def load_kind(api_version: str, kind: str) -> tuple[JsonObject, Admission]:
    """Return the schema and the admission of a kind."""
    from quintet.manifests.crd import object_schema

    found = kinds.find(api_version, kind)
    assert found is not None
    return object_schema(kinds.load(found.declaration)), kinds.load(found.admission)


def _suggest_kind(api_version: str, kind: str) -> str:
    """Return an error for a misspelled kind of Quintet; empty if no kind is similar."""
    group = api_version.partition("/")[0]
    in_group = {
        each.name: each.api_version
        for each in kinds.all_kinds()
        if each.admission and each.api_version.partition("/")[0] == group
    }
    meant = difflib.get_close_matches(kind, in_group, n=1, cutoff=0.8)
    if not meant:
        return ""
    return f"unknown kind {kind} of {api_version} (did you mean {meant[0]} of {in_group[meant[0]]}?)"


def read_manifests(paths: tuple[str, ...], *, recursive: bool) -> Iterator[Document]:
    """Yield the objects of all files."""
    for file in find_files(paths, recursive=recursive):
        try:
            for document in read_documents(file):
                yield from split_list(document)
        except OSError as error:
            raise UnreadableFile(f"cannot read {file}: {error.strerror or error}") from error


def list_findings(
    document: Document, namespace: str, found: ValidationResult | None
) -> Iterator[dict[str, Any]]:
    """Yield the errors and warnings of one object as JSON-ready data."""
    if found is None:
        return
    obj = document.value if isinstance(document.value, dict) else {}
    written = obj.get("metadata")
    metadata = written if isinstance(written, dict) else {}
    where = {
        "file": document.file,
        "document": document.number,
        "kind": str(obj.get("kind", "")),
        "namespace": str(metadata.get("namespace", namespace)),
        "name": str(metadata.get("name") or metadata.get("generateName") or ""),
    }
    for error in found.errors:
        if isinstance(error, str):
            yield {**where, "severity": "error", "field": "", "reason": "", "message": error}
        else:
            details = {"field": str(error.path), "reason": error.type.reason, "message": error.cause}
            yield {**where, "severity": "error", **details}
    for warning in found.warnings:
        yield {**where, "severity": "warning", "field": "", "reason": "", "message": warning}


def format_finding(finding: dict[str, Any]) -> str:
    """Return a finding as one line of text."""
    named = f"{finding['namespace']}/{finding['name']}" if finding["name"] else ""
    parts = (
        f"{finding['file']}, document {finding['document']}",
        f"{finding['kind']} {named}".strip(),
        "warning" if finding["severity"] == "warning" else "",
        finding["field"],
        finding["message"],
    )
    return ": ".join(filter(None, parts))
