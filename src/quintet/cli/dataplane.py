"""The commands publisher-proxy and dispatcher: the processes of the data plane, in pods of their own.

Called by `main`. What they work with is in one environment variable, written by the controller
(`eventing.settings`). Each imports only what it needs: a pod of the data plane is to stay small.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
import uvloop

from quintet.apis.decoding import DECODE_ERRORS
from quintet.cli.addresses import Address
from quintet.clock import SystemClock
from quintet.eventing.settings import VARIABLE, DispatcherSettings, PublisherSettings
from quintet.observe import logging as logs

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Settings = TypeVar("Settings", PublisherSettings, DispatcherSettings)


def _logging(command: Callable[..., None]) -> Callable[..., None]:
    level = click.Choice(["debug", "info", "warning", "error"])
    command = click.option("--log-level", type=level, default="info", show_default=True)(command)
    style = click.Choice(["json", "text"])
    return click.option("--log-format", type=style, default="json", show_default=True)(command)


@click.command("publisher-proxy", epilog="Exit codes: 0 asked to stop, 1 it failed, 2 it was called wrongly.")
@click.option("--address", type=Address(), default=":8080", show_default=True, help="Takes events in.")
@click.option(
    "--metrics-address", type=Address(), default=":9090", show_default=True, help="Serves /metrics."
)
@click.option(
    "--leave-seconds",
    type=click.FloatRange(0, 300),
    default=5.0,
    show_default=True,
    help="How long to serve on after SIGTERM while saying that it is not ready.",
)
@click.option(
    "--grace-seconds",
    type=click.FloatRange(0, 300),
    default=45.0,
    show_default=True,
    help="How long what is under way may take after that.",
)
@_logging
def publisher_proxy(
    address: tuple[str, int],
    metrics_address: tuple[str, int],
    leave_seconds: float,
    grace_seconds: float,
    log_format: str,
    log_level: str,
) -> None:
    """Take CloudEvents in by POST /publish and answer when the backend has them.

    Runs in the pods of an EventingBackend; what it works with is in QUINTET_EVENTING.
    """
    settings = _settings(PublisherSettings)
    if (settings.nats is None) == (settings.beb is None):
        raise click.ClickException(f"{VARIABLE} must name one backend: nats or beb")
    logs.set_up(log_format, log_level)
    from quintet.eventing.publisher import process

    options = process.PublisherOptions(
        address=address,
        metrics_address=metrics_address,
        leave_seconds=leave_seconds,
        grace_seconds=grace_seconds,
    )
    if not _run(process.serve(settings, options, SystemClock())):
        raise click.ClickException("the backend was given up; the log says why")


class _SinkAddress(click.ParamType[tuple[str, tuple[str, int]]]):
    """HOST=ADDRESS:PORT."""

    name = "host=address:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, int]]:
        """Take it apart."""
        if isinstance(value, tuple):
            return value
        host, equals, place = str(value).partition("=")
        if not host or not equals:
            self.fail(f"{value!r} is not HOST=ADDRESS:PORT", param, ctx)
        return host, Address().convert(place, param, ctx)


@click.command(epilog="Exit codes: 0 asked to stop, 1 it failed, 2 it was called wrongly.")
@click.option("--kubeconfig", help="Which cluster; default: KUBECONFIG, the pod's own, ~/.kube/config.")
@click.option(
    "--address", type=Address(), default=":8080", show_default=True, help="Serves /healthz and /readyz."
)
@click.option(
    "--metrics-address", type=Address(), default=":9090", show_default=True, help="Serves /metrics."
)
@click.option(
    "--sink-address",
    "places",
    type=_SinkAddress(),
    multiple=True,
    help="Where a sink is reached instead: on a developer's machine names of Services do not resolve.",
)
@_logging
def dispatcher(
    kubeconfig: str | None,
    address: tuple[str, int],
    metrics_address: tuple[str, int],
    places: tuple[tuple[str, tuple[str, int]], ...],
    log_format: str,
    log_level: str,
) -> None:
    """Deliver the events of a backend to the sinks of its Subscriptions.

    Runs in the pods of an EventingBackend; what it works with is in QUINTET_EVENTING.
    """
    settings = _settings(DispatcherSettings)
    logs.set_up(log_format, log_level)
    from quintet.eventing.dispatcher import process

    options = process.DispatcherOptions(
        kubeconfig=kubeconfig, address=address, metrics_address=metrics_address, sink_overrides=dict(places)
    )
    if not _run(process.serve(settings, options, SystemClock())):
        raise click.ClickException("the backend was given up; the log says why")


def _settings(kind: type[Settings]) -> Settings:
    text = os.environ.get(VARIABLE)
    if text is None:
        raise click.ClickException(
            f"{VARIABLE} is not set: this command runs in the pods of an EventingBackend"
        )
    try:
        return msgspec.json.decode(text, type=kind)
    except DECODE_ERRORS as error:
        raise click.ClickException(f"{VARIABLE} cannot be read: {error}") from error


def _run(work: Coroutine[Any, Any, bool]) -> bool:
    from quintet.eventing.decide.eventmesh import SecretError
    from quintet.nats.errors import CredentialsError

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except CredentialsError as error:
        raise click.ClickException(f"the Secret with the credentials: {error}") from error
    except SecretError as error:
        raise click.ClickException(f"{error} ({error.detail})") from error
