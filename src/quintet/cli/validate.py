"""The command validate: manifests against everything that can be checked without a cluster.

Called by `main`. The same functions judge here and in the webhooks, so they say the same words.
Only the kinds that are met are imported, which keeps the command quick.
"""

from __future__ import annotations

import difflib
import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from quintet.cli import output
from quintet.cli.documents import Document, documents, files, objects
from quintet.cli.options import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quintet.admission.review import Admission
    from quintet.apis.fields import FieldError
    from quintet.apis.meta import JsonObject

# apiVersion and kind → where it is declared and where it is judged: importing all of them takes too long.
KINDS = {
    ("example.com/v1", "JsonServer"): ("apis.jsonserver:JSONSERVER", "admission.jsonserver:ADMISSION"),
    ("kiagnose.io/v1alpha1", "Checkup"): ("apis.checkup:CHECKUP", "admission.checkup:ADMISSION"),
    ("openebs.io/v1alpha1", "CASConfig"): ("apis.casconfig:CASCONFIG", "admission.casconfig:ADMISSION"),
    ("enge.me/v1alpha1", "StatefulCluster"): (
        "apis.statefulcluster:STATEFULCLUSTER",
        "admission.statefulcluster:ADMISSION",
    ),
    ("eventing.kyma-project.io/v1alpha1", "EventingBackend"): (
        "apis.eventingbackend:EVENTINGBACKEND",
        "admission.eventingbackend:REJECTING",
    ),
    ("eventing.kyma-project.io/v1alpha2", "Subscription"): (
        "apis.subscription:SUBSCRIPTION",
        "admission.subscription:ADMISSION",
    ),
}


class Judged(NamedTuple):
    """What is to be said about one object."""

    errors: tuple[FieldError | str, ...] = ()
    warnings: tuple[str, ...] = ()
    known: bool = True
    """Whether it is a kind of ours at all."""


@click.command(epilog="Exit codes: 0 no mistake, 1 mistakes, 2 it was called wrongly.")
@manifests
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Of objects that do not say theirs."
)
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def validate(paths: tuple[str, ...], recursive: bool, namespace: str, form: str) -> None:
    """Check manifests without a cluster, in the words of the webhooks.

    Mistakes in spec.config of an EventingBackend count as mistakes, also where the webhooks only warn.
    Objects of other products are left alone.
    """
    found: list[dict[str, Any]] = []
    checked = skipped = 0
    for document in read(paths, recursive=recursive):
        verdict = judged(document, namespace)
        checked, skipped = checked + verdict.known, skipped + (not verdict.known)
        found += findings(document, namespace, verdict)
    mistaken = any(finding["severity"] == "error" for finding in found)
    if form == "json":
        output.result_json({"checked": checked, "skipped": skipped, "findings": found})
    else:
        for finding in found:
            output.result(line(finding))
        output.progress(_summary(checked, skipped, found))
    raise click.exceptions.Exit(1 if mistaken else 0)


def judged(document: Document, namespace: str) -> Judged:
    """Look at one object as the API server and the webhooks would."""
    obj = document.value
    if document.problem:
        return Judged((document.problem,))
    if not isinstance(obj, dict) or not all(isinstance(obj.get(key), str) for key in ("apiVersion", "kind")):
        return Judged(("is not a Kubernetes object: apiVersion and kind must be set",))
    if not isinstance(obj.get("metadata"), dict | None):
        return Judged(("metadata must be an object",))
    kind = obj["apiVersion"], obj["kind"]
    if kind not in KINDS:
        problem = _nearly(*kind)
        return Judged((problem,) if problem else (), known=bool(problem))
    return _judged(kind, {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}})


def _judged(kind: tuple[str, str], obj: JsonObject) -> Judged:
    """In the order of the API server: fill in, check the schema, and only then ask the kind."""
    from quintet.admission.review import AdmissionRequest, Operation
    from quintet.apis.structural import as_read, mistakes
    from quintet.cli.rules import RULES

    schema, admission = parts(*kind)
    notes: tuple[str, ...] = ()
    errors = mistakes(schema, obj, RULES)
    if errors:
        return Judged(tuple(errors))
    obj = as_read(schema, obj)
    if admission.default is not None:
        notes = admission.alias_warnings(obj) if admission.alias_warnings is not None else ()
        obj = admission.default(obj, Operation.CREATE)
        errors = mistakes(schema, obj, RULES)
    if errors:
        return Judged(tuple(errors), notes)
    where = {key: obj["metadata"].get(key, "") for key in ("namespace", "name")}
    verdict = admission.validate(AdmissionRequest(operation=Operation.CREATE, object=obj, **where))
    return Judged(verdict.errors, (*notes, *verdict.warnings))


def stored(obj: JsonObject, namespace: str) -> JsonObject:
    """An object without mistakes as the API server would store it: with all defaults."""
    from quintet.admission.review import Operation
    from quintet.apis.structural import as_read

    kind = obj["apiVersion"], obj["kind"]
    if kind not in KINDS:
        return obj
    schema, admission = parts(*kind)
    placed = {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}}
    read: JsonObject = as_read(schema, placed)
    return admission.default(read, Operation.CREATE) if admission.default is not None else read


@cache
def parts(api_version: str, kind: str) -> tuple[JsonObject, Admission]:
    """The schema of a kind of ours, and who judges it."""
    from quintet.manifests.crd import object_schema

    declared, admission = map(_imported, KINDS[api_version, kind])
    return object_schema(declared), admission


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"quintet.{module}"), attribute)


def _nearly(api_version: str, kind: str) -> str:
    """What is wrong with a kind that is probably meant to be one of ours."""
    group = api_version.partition("/")[0]
    in_group = {known: version for version, known in KINDS if version.partition("/")[0] == group}
    meant = difflib.get_close_matches(kind, in_group, n=1, cutoff=0.8)
    if not meant:
        return ""
    return f"there is no {kind} of {api_version} (did you mean {meant[0]} of {in_group[meant[0]]}?)"


def read(paths: tuple[str, ...], *, recursive: bool) -> Iterator[Document]:
    """The objects of all files that are meant."""
    for file in files(paths, recursive=recursive):
        try:
            for document in documents(file):
                yield from objects(document)
        except OSError as error:
            raise click.UsageError(f"{file} cannot be read: {error.strerror or error}") from error


def findings(document: Document, namespace: str, found: Judged) -> Iterator[dict[str, Any]]:
    """What was found about one object, one mistake or warning at a time."""
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
            said = {"field": str(error.path), "reason": error.type.reason, "message": error.cause}
            yield {**where, "severity": "error", **said}
    for warning in found.warnings:
        yield {**where, "severity": "warning", "field": "", "reason": "", "message": warning}


def line(finding: dict[str, Any]) -> str:
    """A finding for people."""
    named = f"{finding['namespace']}/{finding['name']}" if finding["name"] else ""
    parts = (
        f"{finding['file']}, document {finding['document']}",
        f"{finding['kind']} {named}".strip(),
        "warning" if finding["severity"] == "warning" else "",
        finding["field"],
        finding["message"],
    )
    return ": ".join(filter(None, parts))


def _summary(checked: int, skipped: int, findings: list[dict[str, Any]]) -> str:
    mistakes = sum(finding["severity"] == "error" for finding in findings)
    warnings = len(findings) - mistakes
    parts = [_count(checked, "object") + " checked", _count(mistakes, "mistake")]
    if warnings:
        parts.append(_count(warnings, "warning"))
    if skipped:
        parts.append(f"{skipped} of other products left alone")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
