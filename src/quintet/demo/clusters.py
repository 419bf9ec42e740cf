"""Runs the demo on an embedded cluster, with or without pods, or on an existing cluster."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from quintet.demo.installation import SYSTEM, DemoInstallation, connect
from quintet.demo.report import Row, render_block
from quintet.demo.run import Progress, run_samples
from quintet.demo.samples import NAMESPACE, Sample, quintet_command
from quintet.local.errors import LocalError
from quintet.local.kubectl import WAIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from quintet.local.kubectl import Kubectl

LABEL = "quintet.dev/demo"
COLUMNS = (
    "custom-columns=DEPLOYMENT:.metadata.name,"
    "ACCOUNT:.spec.template.spec.serviceAccountName,READY:.status.readyReplicas"
)


class NamespaceTaken(LocalError):
    """The namespace of the demo exists and belongs to somebody else; nothing was changed."""


async def run_with_pods(
    samples: Sequence[Sample], kubectl: Kubectl, kubeconfig: str, progress: Progress
) -> list[Row]:
    """Install Quintet on an embedded cluster and run the samples."""
    async with connect(kubeconfig, progress.report) as suite:
        row = await _install(suite, samples, kubectl, progress)
    await _create_namespace(kubectl)
    return [row, *await run_samples(samples, kubectl, progress, pods=True)]


async def run_without_pods(
    samples: Sequence[Sample], kubectl: Kubectl, kubeconfig: str, progress: Progress
) -> list[Row]:
    """Run the samples on a cluster without nodes; the controllers are a local process."""
    async with connect(kubeconfig, progress.report) as suite:
        progress.report("applying the CRDs of all kinds")
        await suite.apply_crds()
    await _create_namespace(kubectl)
    progress.report("starting the controllers on this machine: quintet run")
    async with _local_controllers(kubectl) as ended:
        running = asyncio.create_task(run_samples(samples, kubectl, progress, pods=False))
        await asyncio.wait((running, ended), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        running.cancel()
        raise LocalError(
            f"quintet run ended with exit code {ended.result()}", "quintet run --log-level debug"
        )


async def run_on_existing_cluster(
    samples: Sequence[Sample], kubectl: Kubectl, progress: Progress, *, keep: bool
) -> tuple[list[Row], bool]:
    """Run the samples on an existing cluster and restore its state.

    Also returns whether the demo installed Quintet.
    """
    async with connect(None, progress.report) as suite:
        before = await suite.inspect()
        await _create_namespace(kubectl)
        rows = []
        try:
            if before.is_ours:
                rows.append(await _install(suite, samples, kubectl, progress))
            else:
                progress.report("using the existing installation of Quintet")
            shown = _select_runnable(samples, before.controllers(), progress)
            rows += await run_samples(shown, kubectl, progress, pods=True)
        finally:
            if not keep:
                await _clean_up(suite, kubectl, progress)
                if before.is_ours:
                    progress.report("removing Quintet, which the demo installed")
                    progress.result(await suite.remove(before))
        return rows, before.is_ours


async def _install(
    suite: DemoInstallation, samples: Sequence[Sample], kubectl: Kubectl, progress: Progress
) -> Row:
    begin = progress.seconds()
    quintet_command = await suite.install([sample.controller for sample in samples])
    system = kubectl.in_namespace(SYSTEM)
    shown = [
        await system.show("get", "quintets"),
        await system.show("get", "deployments", "--namespace", SYSTEM, "-o", COLUMNS),
    ]
    about = "Quintet: the operator has installed each controller with its own permissions"
    progress.result(render_block(about, "\n".join(shown)))
    seen = f"{quintet_command.status.ready} controllers are ready, with one pod each"
    return Row("Quintet", quintet_command.metadata.name, seen, progress.seconds() - begin)


def _select_runnable(samples: Sequence[Sample], running: Sequence[str], progress: Progress) -> list[Sample]:
    for sample in samples:
        if sample.controller not in running:
            progress.report(
                f"{sample.kind}: skipped, because the controller {sample.controller} is not installed"
            )
    return [sample for sample in samples if sample.controller in running]


async def _create_namespace(kubectl: Kubectl) -> None:
    """Create the namespace of the demo, or use that of an earlier demo."""
    desired = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {LABEL: "true"}},
    }
    if await kubectl.call("create", "-f", "-", allow="AlreadyExists", text=json.dumps(desired)):
        return
    found = await kubectl.read("namespace", NAMESPACE)
    if LABEL not in found["metadata"].get("labels", {}):
        raise NamespaceTaken(
            f"namespace {NAMESPACE} exists and was not created by a demo",
            f"kubectl delete namespace {NAMESPACE}, if it is not needed",
        )


async def _clean_up(suite: DemoInstallation, kubectl: Kubectl, progress: Progress) -> None:
    progress.report(f"deleting namespace {NAMESPACE} and its objects")
    await suite.delete_objects(NAMESPACE)
    await kubectl.call("delete", "namespace", NAMESPACE, "--ignore-not-found", f"--timeout={WAIT}s")


@asynccontextmanager
async def _local_controllers(kubectl: Kubectl) -> AsyncIterator[asyncio.Task[int]]:
    """Run the controllers as a local process; yields a task with their exit code."""
    # Free ports: the demo does not use these endpoints.
    ports = ["--health-address", "127.0.0.1:0", "--discovery-address", "127.0.0.1:0"]
    command = quintet_command("run", "--log-level", "error", *ports)
    process = await asyncio.create_subprocess_exec(*command, env=dict(kubectl.environment))
    ended = asyncio.create_task(process.wait())
    try:
        yield ended
    finally:
        if process.returncode is None:
            process.terminate()
        await ended
