"""The verb report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output

if TYPE_CHECKING:
    from quintet.inspect.session import Target


@click.command(
    epilog="Exit codes: 0 the bundle was written, 1 nothing could be read or the file could not be written, "
    "2 usage error."
)
@options.target_options
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    default="",
    help="The file to write; - is standard output. Default: quintet-report-DATE.tar.gz.",
)
@click.option(
    "--operator-namespace", default="quintet-system", show_default=True, help="The namespace of Quintet."
)
@click.option(
    "--with-data", is_flag=True, help="Keep the values of environment variables, annotations and data."
)
def report(target: Target, file: str, operator_namespace: str, with_data: bool) -> None:
    """Create a support bundle: objects, trees, Events, logs, metrics and the checks of doctor.

    It contains the objects of users in the namespace -n, or in all namespaces. No Secret is read. Values that
    may be secret are replaced by their length and a fingerprint, and texts that look like passwords or tokens
    are removed. index.md lists what the bundle contains and what could not be read.
    """
    import secrets

    from quintet.clock import SystemClock
    from quintet.support.bundle import build_archive
    from quintet.support.redaction import Redaction
    from quintet.support.report import collect_report

    now = SystemClock().now()
    content, facts = options.run(collect_report(target, operator_namespace, output.progress))
    facts = {"Made": f"{now:%Y-%m-%d %H:%M:%S} UTC", **facts}
    name = f"quintet-report-{now:%Y%m%d-%H%M%S}"
    archive = build_archive(content, Redaction(secrets.token_bytes(32), with_data), name, facts)
    _write(file or f"{name}.tar.gz", archive)
    if content.missing:
        output.progress(f"{len(content.missing)} items could not be read: see index.md in the bundle")


def _write(file: str, archive: bytes) -> None:
    import os
    import sys
    from pathlib import Path

    from quintet.local.errors import LocalError

    if file == "-":
        sys.stdout.buffer.write(archive)
        return
    # Readable for the user alone, who should look through the bundle before sharing it.
    try:
        handle = os.open(Path(file), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(archive)
    except OSError as error:
        raise LocalError(f"cannot write {file} ({error.strerror})", "choose another file with -o") from error
    output.result(file)
