"""Runs the demo: chooses the cluster, runs the samples there and cleans up.

What the demo started is stopped, however it ends: by itself, with an error or by a signal.
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

from quintet.clock import SystemClock
from quintet.demo import report
from quintet.demo.clusters import NamespaceTaken, run_on_existing_cluster, run_with_pods, run_without_pods
from quintet.demo.run import Progress, interruptible, raise_failures
from quintet.demo.samples import NAMESPACE, Sample, all_samples
from quintet.local import cluster
from quintet.local.build import programs
from quintet.local.errors import LocalError
from quintet.local.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NAME = "demo"
"""The name of the embedded cluster."""


def run(
    controllers: Sequence[str],
    report_line: Callable[[str], None],
    result: Callable[[str], None],
    *,
    keep: bool,
) -> None:
    """Run the samples of these controllers."""
    samples = [sample for sample in all_samples() if sample.controller in controllers]
    progress = Progress(SystemClock(), report_line, result)
    with interruptible():
        if os.environ.get("KUBECONFIG"):
            _run_on_existing_cluster(samples, progress, keep=keep)
        else:
            _run_on_embedded_cluster(samples, progress, keep=keep)


def _run_on_embedded_cluster(samples: Sequence[Sample], progress: Progress, *, keep: bool) -> None:
    with_node = platform.system() == "Linux" and os.geteuid() == 0
    # An existing cluster is not stopped.
    keep = keep or cluster.load_cluster(NAME) is not None
    started = None
    try:
        started = cluster.up(NAME, nodes=int(with_node), progress=progress.report)
        _run_samples(started, samples, progress, keep=keep)
    except BaseException as error:
        # A failed start has already stopped everything and kept the log that its error names.
        failed_to_start = started is None and isinstance(error, LocalError)
        if not keep and not failed_to_start:
            _stop(progress)
        raise
    if keep:
        kubectl = f"{_kubectl()} --namespace {NAMESPACE}"
        progress.result(
            "\n" + report.render_hints(kubectl, _hints(samples), f"{_command()} down --name {NAME}")
        )
    else:
        _stop(progress)
        progress.result("\n" + report.render_stopped(_command()))


def _run_samples(
    started: cluster.Cluster, samples: Sequence[Sample], progress: Progress, *, keep: bool
) -> None:
    kubectl = Kubectl(started.programs / "kubectl", started.environment, NAMESPACE)
    what = f"Kubernetes {started.version}, {'one node' if started.node else 'no node'}"
    begun = report.Row("cluster", NAME, what, progress.seconds())
    stage = run_with_pods if started.node else run_without_pods
    with _rewrite_next_steps(_kubectl(), kept=keep):
        rows = asyncio.run(stage(samples, kubectl, str(started.kubeconfig), progress))
        progress.result("\n" + report.render_table([begun, *rows], progress.seconds()))
        if not started.node:
            progress.result("\n" + report.NO_PODS)
        raise_failures(rows)


def _run_on_existing_cluster(samples: Sequence[Sample], progress: Progress, *, keep: bool) -> None:
    found = shutil.which("kubectl")
    program = Path(found) if found else programs.build_kubernetes(progress.report) / "kubectl"
    kubectl = Kubectl(program, dict(os.environ), NAMESPACE)
    with _rewrite_next_steps("kubectl", kept=keep):
        rows, ours = asyncio.run(run_on_existing_cluster(samples, kubectl, progress, keep=keep))
        progress.result("\n" + report.render_table(rows, progress.seconds()))
        raise_failures(rows)
    if keep:
        end = f"kubectl delete namespace {NAMESPACE}"
        stop = f"{end}; {_command()} uninstall --delete-data" if ours else end
        progress.result("\n" + report.render_hints(f"kubectl --namespace {NAMESPACE}", _hints(samples), stop))


@contextmanager
def _rewrite_next_steps(kubectl: str, *, kept: bool) -> Iterator[None]:
    """Rewrite next steps of errors: without --keep, the objects they name are deleted."""
    try:
        yield
    except NamespaceTaken:
        raise
    except LocalError as error:
        raise LocalError(error.message, report.next_step(error.next_step, kubectl, kept=kept)) from error


def _hints(samples: Sequence[Sample]) -> list[tuple[str, str]]:
    general = ("all objects", "get quintet"), ("the controllers", "get quintets,deployments -A")
    return [*general, *(hint for sample in samples for hint in sample.hints)]


def _command() -> str:
    """Return the command with which the user calls this program."""
    return "quintet" if shutil.which("quintet") else sys.argv[0]


def _kubectl() -> str:
    return f"{_command()} kubectl --name {NAME} --"


def _stop(progress: Progress) -> None:
    progress.report(f"stopping cluster {NAME}")
    try:
        cluster.down(NAME)
    except KeyboardInterrupt:
        raise LocalError(
            f"interrupted before cluster {NAME} was deleted", f"{_command()} down --name {NAME}"
        ) from None
