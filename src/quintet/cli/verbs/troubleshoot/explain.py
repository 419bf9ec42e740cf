"""The verb explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.inspect.explanation import Explanation
    from quintet.inspect.kinds import ObjectName
    from quintet.inspect.session import Target

BACKEND = "backend"


@click.command(epilog=options.EXIT_CODES)
@options.object_argument("KIND NAME | backend [TYPE [KEY]]")
@options.target_options
@options.output_option("text", "json", "yaml")
def explain(typed: tuple[str, ...], target: Target, form: str) -> None:
    """Explain an object's status: conditions, children, Events, and the next step.

    `quintet explain backend` shows the backend types, the configuration options of a type, or one option;
    with -o json in the format of the discovery endpoint.
    """
    form = "" if form == "text" else form
    if typed[0] == BACKEND:
        _explain_backend(typed[1:], form)
        return
    found, remarks = options.run(_read(target, options.parse_object(typed)))
    if form:
        from quintet.inspect.explanation import explanation_document

        output.result_as(form, explanation_document(found) | {"notSeen": remarks})
        return
    from quintet.clock import SystemClock
    from quintet.inspect.explanation import explanation_lines

    for line in explanation_lines(found, SystemClock().now()):
        output.result(line)
    for remark in remarks:
        output.progress(remark)


async def _read(target: Target, named: ObjectName) -> tuple[Explanation, list[str]]:
    from quintet.inspect.explanation_reader import read_explanation

    async with connect(target) as session:
        return await read_explanation(session, named)


def _explain_backend(names: tuple[str, ...], form: str) -> None:
    from quintet.inspect.backend_options import UnknownOption, describe, describe_document

    try:
        if form:
            output.result_as(form, describe_document(names))
        else:
            output.result(describe(names))
    except UnknownOption as error:
        raise click.UsageError(str(error)) from error
