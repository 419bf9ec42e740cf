"""The verb doctor."""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.install.doctor import host as machine
from quintet.install.doctor.examination import run_checks
from quintet.install.doctor.findings import FAILED, OK, UNKNOWN, WARNING, Finding, overall_status

if TYPE_CHECKING:
    from quintet.inspect.session import Target

MARKS = {OK: ("✓", "green"), WARNING: ("!", "yellow"), FAILED: ("✗", "red"), UNKNOWN: ("?", "blue")}


@click.command(epilog="Exit codes: 0 no failures, 1 failures, 2 usage error.")
@click.option("--pre", is_flag=True, help="Only the checks before an installation.")
@click.option("--host", is_flag=True, help="Only this machine: can the embedded cluster run here?")
@options.cluster_options
@click.option(
    "--flavour",
    type=click.Choice(["quintet", "kiagnose"]),
    default="quintet",
    show_default=True,
    help="With --pre: the flavour to install.",
)
@click.option(
    "--operator-namespace",
    metavar="NAME",
    help="With --pre: the namespace to install in; default: that of the flavour.",
)
@click.option("-o", "output_format", type=click.Choice(["json"]), help="Print the findings as JSON.")
@click.pass_context
def doctor(
    ctx: click.Context,
    pre: bool,
    host: bool,
    target: Target,
    flavour: str,
    operator_namespace: str | None,
    output_format: str | None,
) -> None:
    """Check the cluster, your permissions and the installation of Quintet.

    With --pre, check before an installation: the API server, your permissions, and conflicting objects.
    With --host, check whether this machine can run the embedded cluster, with and without nodes.
    Nothing is changed: writes are sent as dry runs.
    """
    if pre and host:
        raise click.UsageError("choose --pre or --host: a cluster or this machine")
    if host:
        findings = machine.check_host(machine.read_host())
        meaning = machine.verdict(findings)
    else:
        findings = asyncio.run(run_checks(target, (flavour, operator_namespace), pre=pre))
        meaning = _verdict(findings, pre=pre)
    verdict = overall_status(findings)
    if output_format == "json":
        output.result_json({"status": verdict, "checks": [asdict(each) for each in findings]})
    else:
        _show(findings, meaning)
    ctx.exit(1 if verdict == FAILED else 0)


def _show(findings: list[Finding], meaning: str) -> None:
    colour = False if os.environ.get("NO_COLOR") else None  # None = on a terminal only
    decorated = output.can_print("".join(mark for mark, _ in MARKS.values()))
    for group, members in groupby(findings, key=lambda each: each.group):
        click.echo(click.style(group, bold=True), color=colour)
        for each in members:
            mark, shade = MARKS[each.status]
            word = f"{mark} {each.status:<7}" if decorated else f"{each.status:<7}"
            click.echo(f"  {click.style(word, fg=shade)} {each.check}: {each.message}", color=colour)
            if each.next:
                click.echo(f"    next: {each.next}", color=colour)
    click.echo(meaning)


def _verdict(findings: list[Finding], *, pre: bool) -> str:
    failed = {each.group for each in findings if each.status == FAILED}
    if not failed:
        return "Quintet can be installed" if pre else "no problems found"
    if failed <= {"installation", "webhooks"}:
        return "the cluster is usable, but Quintet does not work yet"
    return "Quintet cannot be installed yet" if pre else "the cluster cannot be used yet"
