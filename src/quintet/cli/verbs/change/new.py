"""The verb new."""

from __future__ import annotations

import click

from quintet.cli import completion, options, output


@click.command(epilog="Exit codes: 0 success, 1 the name is invalid, 2 usage error.")
@click.argument("word", metavar="KIND", shell_complete=completion.complete_kind)
@click.argument("name", required=False)
@click.option("--full", is_flag=True, help="All fields; optional fields are comments.")
@click.option("-n", "--namespace", default="", help="metadata.namespace of the manifest; default: none.")
def new(word: str, name: str | None, full: bool, namespace: str) -> None:
    """Create a starter manifest, with a description of each field.

    It can be applied as it is: `quintet new jsonserver app-books | kubectl apply -f -`.
    """
    from quintet.authoring.starter import NAMESPACE, check_manifest, manifest_lines, read_sample, rename

    kind = options.parse_kind(word)
    sample = rename(read_sample(kind, full=full), name or "", namespace)
    check_manifest(kind, sample.object, namespace or NAMESPACE)
    output.result("\n".join(manifest_lines(kind, sample, full=full)))
