"""The course of the demo: chooses the stage, has the samples shown there, and puts away what it brought.

Called by `command`; goes on to `stages`. However it ends, by itself, by an error or by a signal, what it
started is stopped.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quintet.cli import output
from quintet.cli.demo import report
from quintet.cli.demo.play import Teller, interruptible, refuse_failures
from quintet.cli.demo.samples import NAMESPACE, SAMPLES, Sample
from quintet.cli.demo.stages import Occupied, elsewhere, with_pods, without_pods
from quintet.clock import SystemClock
from quintet.local import cluster
from quintet.local.build import programs
from quintet.local.errors import LocalError
from quintet.local.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME = "demo"
"""Of the embedded cluster."""


def run(controllers: Sequence[str], *, keep: bool) -> None:
    """Show the samples of these controllers."""
    samples = [sample for sample in SAMPLES if sample.controller in controllers]
    teller = Teller(SystemClock())
    with interruptible():
        if os.environ.get("KUBECONFIG"):
            _foreign(samples, teller, keep=keep)
        else:
            _embedded(samples, teller, keep=keep)


def _embedded(samples: Sequence[Sample], teller: Teller, *, keep: bool) -> None:
    with_node = platform.system() == "Linux" and os.geteuid() == 0
    # A cluster that was there before is not ours to stop.
    keep = keep or cluster.load_cluster(NAME) is not None
    started = None
    try:
        started = cluster.up(NAME, node=with_node, progress=teller.say)
        _show(started, samples, teller, keep=keep)
    except BaseException as error:
        # A start that failed has stopped everything itself and left the log that its error names.
        failed_to_start = started is None and isinstance(error, LocalError)
        if not keep and not failed_to_start:
            _stop(teller)
        raise
    if keep:
        kubectl = f"{_kubectl()} --namespace {NAMESPACE}"
        output.result("\n" + report.looks(kubectl, _hints(samples), f"{_command()} down --name {NAME}"))
    else:
        _stop(teller)
        output.result("\n" + report.stopped(_command()))


def _show(started: cluster.Cluster, samples: Sequence[Sample], teller: Teller, *, keep: bool) -> None:
    kubectl = Kubectl(started.programs / "kubectl", started.environment, NAMESPACE)
    what = f"Kubernetes {started.version}, {'one node' if started.node else 'no node'}"
    begun = report.Row("cluster", NAME, what, teller.seconds())
    stage = with_pods if started.node else without_pods
    with _possible_steps(_kubectl(), kept=keep):
        rows = asyncio.run(stage(samples, kubectl, str(started.kubeconfig), teller))
        output.result("\n" + report.table([begun, *rows], teller.seconds()))
        if not started.node:
            output.result("\n" + report.NO_PODS)
        refuse_failures(rows)


def _foreign(samples: Sequence[Sample], teller: Teller, *, keep: bool) -> None:
    found = shutil.which("kubectl")
    program = Path(found) if found else programs.build_kubernetes(teller.say) / "kubectl"
    kubectl = Kubectl(program, dict(os.environ), NAMESPACE)
    with _possible_steps("kubectl", kept=keep):
        rows, ours = asyncio.run(elsewhere(samples, kubectl, teller, keep=keep))
        output.result("\n" + report.table(rows, teller.seconds()))
        refuse_failures(rows)
    if keep:
        end = f"kubectl delete namespace {NAMESPACE}"
        stop = f"{end}; {_command()} uninstall --delete-data" if ours else end
        output.result("\n" + report.looks(f"kubectl --namespace {NAMESPACE}", _hints(samples), stop))


@contextmanager
def _possible_steps(kubectl: str, *, kept: bool) -> Iterator[None]:
    """Let errors name only steps that can be taken: without --keep there is nothing left to look at."""
    try:
        yield
    except Occupied:
        raise
    except LocalError as error:
        raise LocalError(error.message, report.next_step(error.next_step, kubectl, kept=kept)) from error


def _hints(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    general = ("all objects", "get quintet"), ("the controllers", "get quintets,deployments -A")
    return [*general, *(hint for sample in samples for hint in sample.hints)]


def _command() -> str:
    """How this program is called from where the user is."""
    return "quintet" if shutil.which("quintet") else sys.argv[0]


def _kubectl() -> str:
    return f"{_command()} kubectl --name {NAME} --"


def _stop(teller: Teller) -> None:
    teller.say(f"stopping cluster {NAME}")
    try:
        cluster.down(NAME)
    except KeyboardInterrupt:
        raise LocalError(
            f"interrupted before cluster {NAME} was put away", f"{_command()} down --name {NAME}"
        ) from None
