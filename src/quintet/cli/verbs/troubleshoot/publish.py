"""The verb publish."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from quintet.cli import options, output
from quintet.inspect.session import connect

if TYPE_CHECKING:
    from quintet.actions.publish import SampleEvent
    from quintet.inspect.session import Target


@click.command(epilog="Exit codes: 0 delivered to all, 1 not delivered or failure, 2 usage error.")
@click.argument("backend", default="")
@click.option("--type", "event_type", required=True, help="The type of the event, such as order.created.v1.")
@click.option("--source", required=True, help="The source of the event.")
@click.option("--data", default="{}", show_default=True, metavar="JSON", help="The data of the event.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="A further attribute; may be given several times.",
)
@click.option("--id", "event_id", default="", help="The id of the event; default: a random one.")
@click.option("--timeout", default=30.0, show_default=True, help="Seconds to wait for the delivery.")
@click.option("--dry-run", is_flag=True, help="Show which Subscriptions get the event; publish nothing.")
@options.target_options
def publish(
    backend: str,
    event_type: str,
    source: str,
    data: str,
    attributes: tuple[str, ...],
    event_id: str,
    timeout: float,
    dry_run: bool,
    target: Target,
) -> None:
    """Publish a test event, and show which Subscriptions get it and whether it arrives.

    BACKEND is an EventingBackend; default: the only one in the namespace. Sinks really get the event, with
    the attribute quintettest=true. Needs the permission to create services/proxy.
    """
    import msgspec

    from quintet.actions.publish import SampleEvent
    from quintet.apis.decoding import DECODE_ERRORS

    try:
        parsed = msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        raise click.UsageError(f"--data is not JSON: {error}") from error
    pairs = [each.partition("=")[::2] for each in attributes]
    if any(not name or not value for name, value in pairs):
        raise click.UsageError("--attribute must be NAME=VALUE")
    event = SampleEvent(event_id or f"test-{secrets.token_hex(6)}", source, event_type, parsed, tuple(pairs))
    if any(each.isspace() for each in event.id):
        raise click.UsageError("--id must not contain spaces")
    options.run(_publish(target, backend, event, timeout, dry_run))


async def _publish(target: Target, name: str, event: SampleEvent, timeout: float, dry_run: bool) -> None:
    from quintet.actions import publish as action

    async with connect(target) as session:
        backend = await action.find_backend(session.client, session.namespace, name)
        receivers = await action.find_receivers(session.client, backend, event)
        for each in receivers:
            ready = each.status.ready
            reason = "" if ready else ", ".join(at.reason for at in each.status.conditions)
            state = "ready" if ready else f"not ready: {reason or 'no status'}"
            output.result(f"subscription/{each.metadata.name}: matches ({state})")
        if not receivers:
            output.result(f"no Subscription of {name or backend.metadata.name} matches this source and type")
        if dry_run:
            return
        await action.publish(session.client, backend.key, event)
        output.result(f"event {event.id}: stored")
        ready_ones = [each for each in receivers if each.status.ready]
        late = await action.wait_for_deliveries(
            session.client, ready_ones, event, output.result, timeout=timeout
        )
    for left in sorted(late):
        output.result(f"subscription/{left}: not delivered in {timeout:g} s")
    if late or len(ready_ones) < len(receivers) or not receivers:
        raise SystemExit(1)
