"""The verb deadletters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from quintet.apis.subscription import Subscription
    from quintet.apis.subscription.dead_letters import DeadLetter, DeadLetterAction, RequestStatus
    from quintet.inspect.session import Session, Target


def _parse_time(ctx: click.Context, param: click.Parameter, written: str | None) -> datetime | None:
    from datetime import UTC, datetime, timedelta

    from quintet.apis.durations import seconds
    from quintet.clock import SystemClock

    if written is None:
        return None
    if (ago := seconds(written)) is not None:
        return SystemClock().now() - timedelta(seconds=float(ago))
    try:
        time = datetime.fromisoformat(written)
    except ValueError as error:
        raise click.UsageError(
            "write a time such as 2025-01-31T12:00:00Z, or an age such as 2h", ctx
        ) from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _selection(command: Callable[..., Any]) -> Callable[..., Any]:
    return options.with_options(
        [
            click.option(
                "--number", "sequences", type=int, multiple=True, help="The number of a dead letter."
            ),
            click.option("--id", "ids", multiple=True, metavar="ID", help="The id of an event."),
            click.option("--result", default="", metavar="TEXT", help="A part of the result, such as 503."),
            click.option(
                "--after", callback=_parse_time, metavar="TIME", help="Since a time, or an age: 2h."
            ),
            click.option(
                "--before", callback=_parse_time, metavar="TIME", help="Before a time, or an age: 2h."
            ),
            click.option("--all", "everything", is_flag=True, help="All dead letters of the Subscription."),
            click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for the end."),
        ]
    )(command)


@click.group(epilog=options.EXIT_CODES)
def deadletters() -> None:
    """List, replay and drop events that could not be delivered."""


@deadletters.command("list", epilog=options.EXIT_CODES)
@click.argument("subscription", default="")
@options.target_options
@options.output_option("json", "yaml")
def list_letters(subscription: str, target: Target, form: str) -> None:
    """List the oldest dead letters of all Subscriptions of a namespace, or of one."""
    options.run(_list(subscription, target, form))


@deadletters.command(epilog=options.EXIT_CODES)
@click.argument("subscription")
@click.argument("number", type=int)
@options.target_options
@options.output_option("json", "yaml")
def show(subscription: str, number: int, target: Target, form: str) -> None:
    """Show one dead letter."""
    options.run(_show(subscription, number, target, form))


@deadletters.command(epilog=options.EXIT_CODES)
@click.argument("subscription")
@_selection
@options.target_options
@options.dry_run_option
def replay(subscription: str, target: Target, dry_run: bool, **selection: Any) -> None:
    """Deliver dead letters again, those that fit all options.

    A replayed event is no dead letter any more. If its delivery fails again, it becomes a new one.
    """
    from quintet.apis.subscription.dead_letters import DeadLetterAction

    options.run(_request(DeadLetterAction.REPLAY, subscription, target, dry_run, **selection))


@deadletters.command(epilog=options.EXIT_CODES)
@click.argument("subscription")
@_selection
@options.target_options
@options.dry_run_option
def drop(subscription: str, target: Target, dry_run: bool, **selection: Any) -> None:
    """Delete dead letters, those that fit all options."""
    from quintet.apis.subscription.dead_letters import DeadLetterAction

    options.run(_request(DeadLetterAction.DROP, subscription, target, dry_run, **selection))


async def _read(session: Session, name: str) -> list[Subscription]:
    import msgspec

    from quintet.apis.subscription import SUBSCRIPTIONS, Subscription

    if name:
        return [await session.client.get(SUBSCRIPTIONS, session.key(SUBSCRIPTIONS, name), Subscription)]
    decode = msgspec.json.Decoder(Subscription).decode
    pages = session.client.pages(SUBSCRIPTIONS, namespace=session.namespace)
    return [decode(item) async for page in pages for item in page.items]


async def _list(name: str, target: Target, form: str) -> None:
    import msgspec

    from quintet.clock import SystemClock
    from quintet.inspect.dead_letters import dead_letter_rows, more_notes
    from quintet.inspect.tables import align_columns

    async with connect(target) as session:
        found = await _read(session, name)
    if form:
        items = [
            {"subscription": each.metadata.name, **msgspec.to_builtins(each.status.dead_letters)}
            for each in found
        ]
        output.result_as(form, {"items": items})
        return
    rows = dead_letter_rows(found, SystemClock().now())
    for line in align_columns(rows, width=output.width()):
        output.result(line)
    for note in more_notes(found) if rows else ["no dead letters"]:
        output.progress(note)


async def _show(name: str, number: int, target: Target, form: str) -> None:
    import msgspec

    from quintet.inspect.dead_letters import dead_letter_lines
    from quintet.local.errors import LocalError

    async with connect(target) as session:
        (found,) = await _read(session, name)
    letters: dict[int, DeadLetter] = {each.sequence: each for each in found.status.dead_letters.oldest}
    if number not in letters:
        raise LocalError(
            f"Subscription {name} lists no dead letter {number}", f"run `quintet deadletters list {name}`"
        )
    if form:
        output.result_as(form, msgspec.to_builtins(letters[number]))
        return
    for line in dead_letter_lines(letters[number]):
        output.result(line)


async def _request(
    action: DeadLetterAction,
    name: str,
    target: Target,
    dry_run: bool,
    *,
    everything: bool,
    timeout: float,
    **selection: Any,
) -> None:
    from quintet.actions.dead_letters import handle_dead_letters, new_request
    from quintet.apis.subscription import SUBSCRIPTIONS

    if everything == any(selection.values()):
        raise click.UsageError(
            "select dead letters by --number, --id, --result, --after, --before, or use --all"
        )
    request = new_request(action, **selection)
    async with connect(target) as session:
        key = session.key(SUBSCRIPTIONS, name)
        done: RequestStatus | None = await handle_dead_letters(
            session.client, key, request, timeout=timeout, dry_run=dry_run
        )
    if done is None:
        output.progress(f"dead letters of subscription/{name} are selected (dry run)")
        return
    verb = "replayed" if action.value == "replay" else "dropped"
    output.progress(f"{verb} {done.handled} dead letters of subscription/{name}")
