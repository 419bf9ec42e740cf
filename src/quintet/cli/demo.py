"""The command demo: from nothing to an answer out of a pod, then everything is put away again.

Called by `main`; goes on to `quintet.local.cluster` and `quintet.local.example`.
"""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import click

from quintet.cli import output
from quintet.local import build, cluster
from quintet.local.example import NAMESPACE, QUESTION, Example

NAME = "demo"


@click.command(epilog="Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly.")
@click.option("--keep", is_flag=True, help="Leave the cluster running to look around in.")
def demo(keep: bool) -> None:
    """Show a pod answering through a Service.

    As root on Linux on an embedded cluster with a real node; otherwise with a control plane only,
    where objects are stored but no pod runs. With KUBECONFIG set, on that cluster.
    """
    if os.environ.get("KUBECONFIG"):
        _foreign(keep=keep)
    else:
        _embedded(keep=keep)


def _foreign(*, keep: bool) -> None:
    found = shutil.which("kubectl")
    kubectl = Path(found) if found else build.kubernetes(output.progress) / "kubectl"
    example = Example(kubectl, dict(os.environ), output.progress)
    try:
        _show(example)
    finally:
        if not keep:
            output.progress(f"deleting namespace {NAMESPACE}")
            example.remove()
    if keep:
        _next(f"kubectl --namespace {NAMESPACE}", f"kubectl delete namespace {NAMESPACE}")


def _embedded(*, keep: bool) -> None:
    with_node = platform.system() == "Linux" and os.geteuid() == 0
    # A cluster that was there before is not ours to stop.
    keep = keep or NAME in cluster.names()
    try:
        started = cluster.up(NAME, node=with_node, progress=output.progress)
        example = Example(started.programs / "kubectl", started.environment, output.progress)
        if started.node:
            _show(example)
        else:
            example.apply()
            output.result(example.objects())
            output.result(
                "No pod runs, because a node needs root on Linux: run `quintet demo` there as root."
            )
    except BaseException:
        if not keep:
            cluster.down(NAME)
        raise
    if keep:
        _next(f"quintet kubectl --name {NAME} -- --namespace {NAMESPACE}", f"quintet down --name {NAME}")
    else:
        cluster.down(NAME)
        output.result(
            "\nEverything the demo started is stopped again; `quintet demo --keep` leaves it running."
        )


def _show(example: Example) -> None:
    answer = example.run()
    output.result(example.objects())
    output.result(f"$ GET {QUESTION}   (from inside the pod, by the name of its Service)")
    output.result(answer)


def _next(kubectl: str, stop: str) -> None:
    output.result(
        f"""
Look at it:   {kubectl} get all
Its log:      {kubectl} logs deployment/hello
From here:    {kubectl} port-forward service/hello 8080:80   then open http://127.0.0.1:8080/greetings
Its data:     {kubectl} exec deployment/hello -- cat /data/db.json
Stop it:      {stop}"""
    )
