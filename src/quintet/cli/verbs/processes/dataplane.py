"""What the verbs publisher-proxy and dispatcher share.

The controller writes their configuration into one environment variable (`eventing.settings`). Each verb
imports only what it needs, because pods of the data plane must stay small.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
import uvloop

from quintet.apis.decoding import DECODE_ERRORS
from quintet.eventing.settings import VARIABLE, DispatcherSettings, PublisherSettings
from quintet.observe.logging import run_with_level_signal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

Settings = TypeVar("Settings", PublisherSettings, DispatcherSettings)


def log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--log-level` and `--log-format`."""
    level = click.Choice(["debug", "info", "warning", "error"])
    command = click.option("--log-level", type=level, default="info", show_default=True)(command)
    style = click.Choice(["json", "text"])
    return click.option("--log-format", type=style, default="json", show_default=True)(command)


def load_settings(kind: type[Settings]) -> Settings:
    """Return the settings that the controller wrote into the environment."""
    text = os.environ.get(VARIABLE)
    if text is None:
        raise click.ClickException(
            f"{VARIABLE} is not set: this process runs in the pods of an EventingBackend"
        )
    try:
        return msgspec.json.decode(text, type=kind)
    except DECODE_ERRORS as error:
        raise click.ClickException(f"cannot decode {VARIABLE}: {error}") from error


def run_process(work: Coroutine[Any, Any, bool]) -> bool:
    """Run a process of the data plane; an unusable Secret ends it with a message."""
    from quintet.eventing.decide.eventmesh import SecretError
    from quintet.nats.errors import CredentialsError

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_with_level_signal(work))
    except CredentialsError as error:
        raise click.ClickException(f"invalid Secret with credentials: {error}") from error
    except SecretError as error:
        raise click.ClickException(f"{error} ({error.detail})") from error
