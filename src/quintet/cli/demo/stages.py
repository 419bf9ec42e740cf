"""Where the demo can play: on a cluster with pods, on one without, and on one that is somebody else's.

Called by `course`; goes on to `suite` for the installation and to `play` for the samples.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from quintet.cli import output
from quintet.cli.demo.play import Teller, play
from quintet.cli.demo.report import Row, block
from quintet.cli.demo.samples import NAMESPACE, Sample, quintet
from quintet.cli.demo.suite import SYSTEM, Suite, connected
from quintet.local.errors import LocalError
from quintet.local.kubectl import WAIT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from quintet.local.kubectl import Kubectl

MARK = "quintet.dev/demo"
ACCOUNTS = (
    "custom-columns=DEPLOYMENT:.metadata.name,"
    "ACCOUNT:.spec.template.spec.serviceAccountName,READY:.status.readyReplicas"
)


class Occupied(LocalError):
    """The place of the demo is somebody else's; nothing was touched."""


async def with_pods(
    samples: Sequence[Sample], kubectl: Kubectl, kubeconfig: str, teller: Teller
) -> list[Row]:
    """On a cluster of our own: install Quintet, then show the samples."""
    async with connected(kubeconfig, teller.say) as suite:
        row = await _install(suite, samples, kubectl, teller)
    await _namespace(kubectl)
    return [row, *await play(samples, kubectl, teller, pods=True)]


async def without_pods(
    samples: Sequence[Sample], kubectl: Kubectl, kubeconfig: str, teller: Teller
) -> list[Row]:
    """Where no pod runs: the controllers are a process on this machine."""
    async with connected(kubeconfig, teller.say) as suite:
        teller.say("applying the definitions of all kinds")
        await suite.define()
    await _namespace(kubectl)
    teller.say("starting the controllers on this machine: quintet run")
    async with _controllers_here(kubectl) as ended:
        showing = asyncio.create_task(play(samples, kubectl, teller, pods=False))
        await asyncio.wait((showing, ended), return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            return showing.result()
        showing.cancel()
        raise LocalError(
            f"quintet run ended with exit code {ended.result()}", "quintet run --log-level debug"
        )


async def elsewhere(
    samples: Sequence[Sample], kubectl: Kubectl, teller: Teller, *, keep: bool
) -> tuple[list[Row], bool]:
    """On a cluster that is not ours: what was there stays as it was. Also returns whether Quintet is ours."""
    async with connected(None, teller.say) as suite:
        before = await suite.found()
        await _namespace(kubectl)
        rows = []
        try:
            if before.ours:
                rows.append(await _install(suite, samples, kubectl, teller))
            else:
                teller.say("Quintet is installed here already, and is used as it is")
            shown = _runnable(samples, before.controllers(), teller)
            rows += await play(shown, kubectl, teller, pods=True)
        finally:
            if not keep:
                await _put_away(suite, kubectl, teller)
                if before.ours:
                    teller.say("removing Quintet, which was not here before")
                    await suite.remove(before)
        return rows, before.ours


async def _install(suite: Suite, samples: Sequence[Sample], kubectl: Kubectl, teller: Teller) -> Row:
    begin = teller.seconds()
    quintet = await suite.install([sample.controller for sample in samples])
    system = kubectl.in_namespace(SYSTEM)
    shown = [
        await system.show("get", "quintets"),
        await system.show("get", "deployments", "--namespace", SYSTEM, "-o", ACCOUNTS),
    ]
    about = "Quintet: the operator has installed each controller, with rights of its own"
    output.result(block(about, "\n".join(shown)))
    seen = f"{quintet.status.ready} controllers serve, one pod each"
    return Row("Quintet", quintet.metadata.name, seen, teller.seconds() - begin)


def _runnable(samples: Sequence[Sample], running: Sequence[str], teller: Teller) -> list[Sample]:
    for sample in samples:
        if sample.controller not in running:
            teller.say(
                f"{sample.kind}: left out, because the controller {sample.controller} does not run here"
            )
    return [sample for sample in samples if sample.controller in running]


async def _namespace(kubectl: Kubectl) -> None:
    """Make the namespace of the demo, or take one that an earlier demo has left."""
    wanted = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {MARK: "true"}},
    }
    if await kubectl.call("create", "-f", "-", allow="AlreadyExists", text=json.dumps(wanted)):
        return
    found = await kubectl.read("namespace", NAMESPACE)
    if MARK not in found["metadata"].get("labels", {}):
        raise Occupied(
            f"namespace {NAMESPACE} is there already, and was not made by a demo",
            f"kubectl delete namespace {NAMESPACE}, if it is nobody's",
        )


async def _put_away(suite: Suite, kubectl: Kubectl, teller: Teller) -> None:
    teller.say(f"deleting namespace {NAMESPACE} and what is in it")
    await suite.clear(NAMESPACE)
    await kubectl.call("delete", "namespace", NAMESPACE, "--ignore-not-found", f"--timeout={WAIT}s")


@asynccontextmanager
async def _controllers_here(kubectl: Kubectl) -> AsyncIterator[asyncio.Task[int]]:
    """Run the controllers on this machine; gives the exit code, should they end by themselves."""
    # Any free port: what they say about their health is of no interest here.
    ports = ["--health-address", "127.0.0.1:0", "--discovery-address", "127.0.0.1:0"]
    command = quintet("run", "--log-level", "error", *ports)
    process = await asyncio.create_subprocess_exec(*command, env=dict(kubectl.environment))
    ended = asyncio.create_task(process.wait())
    try:
        yield ended
    finally:
        if process.returncode is None:
            process.terminate()
        await ended
