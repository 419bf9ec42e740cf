"""The programs that are compared, and how each is started for a namespace.

`ceiling` and `recorded` replay prepared requests and are not operators; `recorded and watching` also
keeps open the watches that an operator needs. The others find the custom resources, watch the children,
and check them.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import plans, programs
from kit.kinds.jsonservers import PEOPLE
from quintet.apis.jsonserver import JsonServer
from quintet.apis.meta import Resource
from quintet.local.cluster import Cluster

HERE = Path(__file__).resolve().parent
WORKERS = 16

CEILING, RECORDED, WATCHING = "ceiling", "recorded", "recorded and watching"
QUINTET, KOPF = "quintet", "kopf"
CR_CREATE, CR_APPLY = "controller-runtime create", "controller-runtime apply"
OPERATORS = (QUINTET, CR_CREATE, CR_APPLY, KOPF)


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster and namespace that a contender works on; an empty namespace means all."""

    kubeconfig: Path
    namespace: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Command, environment and standard input of a process."""

    argv: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: Path | None = None


@dataclass(frozen=True, slots=True)
class Contender:
    """A program that is measured; `plan` writes the requests of a replaying one."""

    name: str
    launch: Callable[[Target], Launch]
    plan: Callable[[Sequence[JsonServer]], Path] | None = None


def quintet(workers: int = WORKERS) -> Contender:
    """Return Quintet, started as users start it."""

    def launch(target: Target) -> Launch:
        program = Path(sys.executable).parent / "quintet"
        return Launch([
            str(program), "run", "--controllers", "jsonserver", "--kubeconfig", str(target.kubeconfig),
            "--namespace", target.namespace, "--health-address", "127.0.0.1:0", "--workers", str(workers),
        ])  # fmt: skip

    return Contender(QUINTET, launch)


def controller_runtime(go: Path, *, apply: bool) -> Contender:
    """Return a tuned Go operator: typed, 16 workers, no client-side rate limit."""

    def launch(target: Target) -> Launch:
        where = ["-kubeconfig", str(target.kubeconfig), "-namespace", target.namespace]
        argv = [str(go / "operator"), *where, "-workers", str(WORKERS), f"-apply={str(apply).lower()}"]
        return Launch(argv, {"BENCH_TEMPLATE": plans.template(PEOPLE)})

    return Contender(CR_APPLY if apply else CR_CREATE, launch)


def kopf(python: Path) -> Contender:
    """Return the newest Kopf with uvloop, without worker limit, Events or unnecessary patches."""

    def launch(target: Target) -> Launch:
        script = str(HERE / "peers/kopf/operator.py")
        where = ["--namespace", target.namespace] if target.namespace else ["--all-namespaces"]
        argv = [str(python), "-m", "kopf", "run", "--standalone", "--quiet", *where, script]
        return Launch(argv, {"KUBECONFIG": str(target.kubeconfig), "BENCH_TEMPLATE": plans.template(PEOPLE)})

    return Contender(KOPF, launch)


def replay_contender(
    name: str,
    go: Path,
    cluster: Cluster,
    plan: Callable[[Sequence[JsonServer]], Path],
    watched: Sequence[Resource] = (),
) -> Contender:
    """Return a contender that replays requests over 16 connections and discards what it watches."""
    pki = cluster.directory / "pki"

    def launch(target: Target) -> Launch:
        watches = [word for each in watched for word in ("-watch", f"{each.path(target.namespace)}?watch=1")]
        return Launch([
            str(go / "replay"), "-server", cluster.server, "-ca", str(cluster.ca),
            "-cert", str(pki / "admin.crt"), "-key", str(pki / "admin.key"), "-connections", str(WORKERS),
            "-stay", *watches,
        ])  # fmt: skip

    return Contender(name, launch, plan)


def operators(progress: programs.Progress) -> dict[str, Contender]:
    """Return the operators by name."""
    go, python = programs.go_programs(progress), programs.python_environment(progress)
    found = (
        quintet(),
        controller_runtime(go, apply=False),
        controller_runtime(go, apply=True),
        kopf(python),
    )
    return {each.name: each for each in found}
