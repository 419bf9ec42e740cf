"""The command demo: from nothing to data out of a pod, then everything is put away again.

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
from quintet.local.example import NAME as SERVER
from quintet.local.example import NAMESPACE, QUESTION, Example

NAME = "demo"
CHILDREN = "deployments,pods,services,configmaps"


@click.command(epilog="Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly.")
@click.option("--keep", is_flag=True, help="Leave the cluster running to look around in.")
def demo(keep: bool) -> None:
    """Show a JsonServer become pods that serve its data.

    As root on Linux on an embedded cluster with a real node; otherwise with a control plane only,
    where the operator makes the objects but no pod runs. With KUBECONFIG set, on that cluster.
    """
    if os.environ.get("KUBECONFIG"):
        _foreign(keep=keep)
    else:
        _embedded(keep=keep)


def _foreign(*, keep: bool) -> None:
    found = shutil.which("kubectl")
    kubectl = Path(found) if found else build.kubernetes(output.progress) / "kubectl"
    example = Example(kubectl, dict(os.environ), output.progress)
    ours = not example.installed()
    try:
        _show(example)
    finally:
        if not keep:
            also = " and the operator" if ours else ""
            output.progress(f"deleting namespace {NAMESPACE}{also}")
            example.remove(operator=ours)
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
            _show_without_pods(example)
    except BaseException:
        if not keep:
            cluster.down(NAME)
        raise
    if keep:
        _next(f"quintet kubectl --name {NAME} -- --namespace {NAMESPACE}", f"quintet down --name {NAME}")
    else:
        cluster.down(NAME)
        output.result(
            "\nEverything the demo started is stopped again; `quintet demo --keep` leaves it running and says"
            " what to try.\nWhat you saw is in examples/01-jsonserver, every field in docs/jsonserver.md."
        )


def _show(example: Example) -> None:
    example.install()
    example.apply()
    example.wait("Ready")
    answer = example.ask()
    _objects(example)
    output.result(f"$ GET {QUESTION}   (from inside a pod, by the name of the Service)")
    output.result(answer)


def _show_without_pods(example: Example) -> None:
    with example.operator_here():
        example.apply()
        example.wait("Synced")
        _objects(example)
    output.result("No pod runs, because a node needs root on Linux: run `quintet demo` there as root.")


def _objects(example: Example) -> None:
    output.result(example.show("get", "jsonservers"))
    output.result(example.show("get", CHILDREN, "-l", f"app={SERVER}"))


def _next(kubectl: str, stop: str) -> None:
    output.result(
        f"""
Look at it:    {kubectl} get js {SERVER} -o yaml
From here:     {kubectl} port-forward service/{SERVER} 3000   then open http://127.0.0.1:3000/people
More pods:     {kubectl} scale js {SERVER} --replicas 3
Other data:    {kubectl} edit js {SERVER}   and watch it arrive: {kubectl} get pods --watch
Meddle:        {kubectl} delete service {SERVER}   and see it come back
A mistake:     {kubectl} patch js {SERVER} --type merge -p '{{"spec": {{"jsonConfig": "[]"}}}}'
Stop it:       {stop}"""
    )
