"""The verb validate."""

from __future__ import annotations

from typing import Any

import click

from quintet.authoring.validation import format_finding, list_findings, validate_document
from quintet.cli import options, output


@click.command(epilog="Exit codes: 0 no validation errors, 1 validation errors, 2 usage error.")
@options.manifest_options
@options.namespace_default
@click.option("-o", "--output", "form", type=click.Choice(["text", "json"]), default="text")
def validate(paths: tuple[str, ...], recursive: bool, namespace: str, form: str) -> None:
    """Validate manifests without a cluster; the errors are those of the webhooks.

    Errors in spec.config of an EventingBackend count, even where the webhooks only warn. Objects of other
    products are skipped.
    """
    found: list[dict[str, Any]] = []
    checked = skipped = 0
    for document in options.read_manifests(paths, recursive=recursive):
        result = validate_document(document, namespace)
        checked, skipped = checked + (result is not None), skipped + (result is None)
        found += list_findings(document, namespace, result)
    if form == "json":
        output.result_json({"checked": checked, "skipped": skipped, "findings": found})
    else:
        for finding in found:
            output.result(format_finding(finding))
        output.progress(_summary(checked, skipped, found))
    failed = any(finding["severity"] == "error" for finding in found)
    raise click.exceptions.Exit(1 if failed else 0)


def _summary(checked: int, skipped: int, findings: list[dict[str, Any]]) -> str:
    errors = sum(finding["severity"] == "error" for finding in findings)
    warnings = len(findings) - errors
    parts = [_count(checked, "object") + " checked", _count(errors, "error")]
    if warnings:
        parts.append(_count(warnings, "warning"))
    if skipped:
        parts.append(f"{_count(skipped, 'object')} of other products skipped")
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
