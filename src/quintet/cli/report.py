"""The command report: an archive for somebody who helps, without secrets.

Called by `main`. `support.gathering` reads, `support.redaction` takes out what must not be handed on, and
`support.archive` writes. What it needs is imported when it is called: whoever asks for help need not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import asking, output

if TYPE_CHECKING:
    from quintet.cli.asking import Where
    from quintet.cli.support.archive import Gathered


@click.command(
    epilog="Exit codes: 0 it was written, 1 it could not be written or nothing could be read, "
    "2 it was called wrongly."
)
@asking.where
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    default="",
    help="Where to; - is standard output. Default: quintet-report-DATE.tar.gz.",
)
@click.option("--operator-namespace", default="quintet-system", show_default=True, help="Where Quintet is.")
@click.option("--with-data", is_flag=True, help="Leave values of variables, annotations and data in it.")
def report(where: Where, target: str, operator_namespace: str, with_data: bool) -> None:
    """Gather what somebody needs who helps: objects, trees, Events, logs, numbers, doctor's answer.

    Objects of users are those of the namespace given by -n; without it, of all namespaces. No Secret is
    read. Values that may hold secrets are replaced by their length and a fingerprint, and what looks like
    a password or a token is removed from every text. index.md says what is there and what is not.
    """
    import asyncio
    import secrets

    from quintet.cli.support.archive import packed
    from quintet.cli.support.redaction import Redaction
    from quintet.clock import SystemClock

    now = SystemClock().now()
    gathered, facts = asyncio.run(_gathered(where, operator_namespace))
    facts = {"Made": f"{now:%Y-%m-%d %H:%M:%S} UTC", **facts}
    name = f"quintet-report-{now:%Y%m%d-%H%M%S}"
    content = packed(gathered, Redaction(secrets.token_bytes(32), with_data), name, facts)
    _write(target or f"{name}.tar.gz", content)
    if gathered.missing:
        output.progress(f"{len(gathered.missing)} things could not be read: see index.md in it")


async def _gathered(where: Where, operator_namespace: str) -> tuple[Gathered, dict[str, str]]:
    import platform

    from quintet import __version__
    from quintet.cli.doctor import examined
    from quintet.cli.support.gathering import Gathering

    async with asking.connected(where) as asked:
        server = await asked.client.version()
        output.progress("reading the installation, logs, objects and Events")
        gathered = await Gathering(asked.client, operator_namespace, where.namespace or "").everything()
    output.progress("asking doctor")
    findings = await examined(where.kubeconfig, where.context, ("quintet", operator_namespace), pre=False)
    gathered.texts["doctor.txt"] = "".join(
        f"{each.group}: {each.status}: {each.check}: {each.message}"
        f"{f' (next: {each.next})' if each.next else ''}\n"
        for each in findings
    )
    facts = {
        "Command": f"quintet {__version__}, Python {platform.python_version()}, {platform.system()}",
        "Server": f"Kubernetes {server.git_version}",
        "Objects of": where.namespace or "all namespaces",
    }
    gathered.texts["versions.txt"] = "".join(f"{name}: {value}\n" for name, value in facts.items())
    gathered.about = {
        "versions.txt": "of the command and of the server",
        "doctor.txt": "what `quintet doctor` says",
        **gathered.about,
    }
    return gathered, facts


def _write(target: str, content: bytes) -> None:
    import os
    import sys
    from pathlib import Path

    from quintet.local.errors import LocalError

    if target == "-":
        sys.stdout.buffer.write(content)
        return
    # For the person alone: what is in it is theirs to look through first.
    try:
        handle = os.open(Path(target), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except OSError as error:
        raise LocalError(
            f"{target} cannot be written ({error.strerror})", "choose another place with -o"
        ) from error
    output.result(target)
