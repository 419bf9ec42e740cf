"""The verb diff."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.inspect.session import Target

# Like `kubectl diff`: 1 is a difference, so an error is more than 1.
ERROR = 2


@click.command(
    epilog="Exit codes: 0 no difference, 1 differences, 2 failure, validation errors or a usage error."
)
@options.manifest_options
@options.target_options
@click.option(
    "--children/--no-children",
    default=True,
    show_default=True,
    help="Also compare the objects that controllers create.",
)
def diff(paths: tuple[str, ...], recursive: bool, target: Target, children: bool) -> None:
    """Show what applying manifests would change, and what controllers would then change.

    The server applies them as a dry run with your permissions. Drift that a controller repairs by itself is
    not shown, and neither are the changes of a CASConfig: for these use spec.mode: Preview.
    """
    from quintet.inspect.error_messages import describe_error
    from quintet.kube.errors import KubeError
    from quintet.local.errors import LocalError

    try:
        found = options.run(_diff(paths, target, recursive=recursive, children=children))
    except KubeError as error:
        output.error(*describe_error(error))
        raise click.exceptions.Exit(ERROR) from error
    except LocalError as error:
        output.error(error.message, error.next_step)
        raise click.exceptions.Exit(ERROR) from error
    if found:
        output.result("\n".join(found))
    raise click.exceptions.Exit(1 if found else 0)


async def _diff(paths: tuple[str, ...], target: Target, *, recursive: bool, children: bool) -> list[str]:
    from quintet.authoring.diff import diff_objects
    from quintet.authoring.validation import format_finding, list_findings, validate_document
    from quintet.local.errors import LocalError

    async with connect(target) as session:
        documents = list(options.read_manifests(paths, recursive=recursive))
        findings = [
            finding
            for each in documents
            for finding in list_findings(each, session.namespace, validate_document(each, session.namespace))
        ]
        for finding in findings:
            click.echo(format_finding(finding), err=True)
        if any(finding["severity"] == "error" for finding in findings):
            raise LocalError("the manifests have validation errors", "fix the errors above")
        return await diff_objects(session, [each.value for each in documents], children=children)
