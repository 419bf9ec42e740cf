"""Starts a process with controllers: its identity, log and event loop, and waiting for the API server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Any, TypeVar

import uvloop

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


def identity() -> str:
    """Return a name that is unique among the replicas: host name and random suffix."""
    return f"{host_name()}-{secrets.token_hex(4)}"


def host_name() -> str:
    """Return the host name, in a pod the name of the pod."""
    return socket.gethostname()


def uses_leader_election(option: bool | None) -> bool:
    """Return the option `--leader-elect`; by default a process elects a leader only in a pod."""
    return option if option is not None else config.in_pod()


class Stopped(Exception):
    """SIGTERM arrived before the process had started."""


async def prepare(
    work: Callable[[], Awaitable[T]], health: HealthServer, clock: Clock, *, patient: bool
) -> T:
    """Serve the health endpoints and do the work that needs the API server before the start.

    With `patient`, as in an installation, it retries while the API server is unreachable. A process that
    exits instead would be restarted by the kubelet with growing delays of up to five minutes. On a
    developer's machine a wrong address is reported at once. An untrusted certificate always ends the
    process: a restart may read a new CA.
    """
    problem = "the API server has not responded yet"
    health.readiness["api-server"] = lambda: problem
    pause = _FIRST_PAUSE
    with _raise_on_sigterm():
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
def _raise_on_sigterm() -> Iterator[None]:
    """Raise `Stopped` on SIGTERM, which the first process of a container ignores by default."""
    loop, task, stopping = asyncio.get_running_loop(), asyncio.current_task(), False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        if task is not None:
            task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    except asyncio.CancelledError:
        if stopping:
            raise Stopped from None
        raise
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGTERM)


def run_process(work: Coroutine[Any, Any, None], log_format: str | None, log_level: str) -> None:
    """Set up the log and run the work until it ends or a signal stops it."""
    logs.set_up(log_format or ("json" if config.in_pod() else "text"), log_level)
    # uvloop needs 10 % less CPU time and less memory for TLS and sockets (docs/adr/0012).
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, contextlib.suppress(Stopped):
        runner.run(logs.run_with_level_signal(work))
