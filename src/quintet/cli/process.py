"""What every process with controllers has: its options, its log, its event loop.

Called by `run` and `operator`, which do with `prepare` what needs the API server before the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Any, TypeVar

import click
import uvloop

from quintet.cli.addresses import Address
from quintet.cli.options import with_options
from quintet.kube import config
from quintet.kube.errors import TRANSIENT, UntrustedServer
from quintet.observe import logging as logs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from quintet.clock import Clock
    from quintet.observe.health import HealthServer

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0

log = logging.getLogger(__name__)

_OPTIONS = (
    click.option("--kubeconfig", help="Which cluster; default: KUBECONFIG, the pod's own, ~/.kube/config."),
    click.option("--context", help="Which context of the kubeconfig."),
    click.option("--leader-elect/--no-leader-elect", default=None, help="Default: only in a pod."),
    click.option(
        "--health-address",
        type=Address(),
        default="127.0.0.1:8081",
        show_default=True,
        help="/healthz, /readyz, /metrics.",
    ),
    click.option(
        "--log-format", type=click.Choice(["json", "text"]), default=None, help="Default: json in a pod."
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
    ),
)
process_options = with_options(_OPTIONS)


def identity() -> str:
    """By which this process is known to the others of its installation."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def elects(asked: bool | None) -> bool:
    """Whether there may be other replicas."""
    return asked if asked is not None else config.in_pod()


class Stopped(Exception):
    """Somebody asked the process to stop before it had started."""


async def prepare(
    work: Callable[[], Awaitable[T]], health: HealthServer, clock: Clock, *, patient: bool
) -> T:
    """Serve health, and do what needs the API server before the start.

    A replica of an installation is `patient` and waits for a server that is away. If it ended instead, the
    kubelet would restart it ever later: up to five minutes after the server is back. On a developer's machine
    a wrong address is reported at once. A server that is not trusted may be after a restart.
    """
    problem = "not asked yet"
    health.readiness["api-server"] = lambda: problem
    pause = _FIRST_PAUSE
    with _stoppable():
        await health.start()
        while True:
            try:
                done = await work()
                break
            except TRANSIENT as error:
                if not patient or isinstance(error, UntrustedServer):
                    await health.stop()
                    raise
                problem = str(error)
                log.warning("Waiting for the API server", extra={"error": problem})
            await clock.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)
    del health.readiness["api-server"]
    return done


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM ends what is inside with `Stopped`: the first process of a container would not hear it."""
    loop, task, asked = asyncio.get_running_loop(), asyncio.current_task(), False

    def stop() -> None:
        nonlocal asked
        asked = True
        if task is not None:
            task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if asked:
            raise Stopped from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)


def run_process(work: Coroutine[Any, Any, None], log_format: str | None, log_level: str) -> None:
    """Run until it ends, or is told to."""
    logs.set_up(log_format or ("json" if config.in_pod() else "text"), log_level)
    # TLS and sockets in C take a tenth less of our time, and less memory (docs/adr/0012).
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, contextlib.suppress(Stopped):
        runner.run(work)
