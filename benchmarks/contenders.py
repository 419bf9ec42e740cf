"""Who takes part: how each is started on a namespace. All of it is our own code, shown at its best.

`ceiling` and `recorded` replay prepared requests and are no operators: they know in advance what
to send; `recorded and watching` also has the watches open that an operator needs. The others find
the custom resources by themselves, watch the children, and check them.
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
class Place:
    """Where a contender works: a cluster by its kubeconfig, and one namespace (empty: all)."""

    kubeconfig: Path
    namespace: str


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a process."""

    argv: Sequence[str]
    environment: dict[str, str] = field(default_factory=dict)
    stdin: Path | None = None


@dataclass(frozen=True, slots=True)
class Contender:
    """One program that is measured; the replaying ones are given the custom resources beforehand."""

    name: str
    launch: Callable[[Place], Launch]
    plan: Callable[[Sequence[JsonServer]], Path] | None = None


def quintet(workers: int = WORKERS) -> Contender:
    """The product itself, as its users start it."""

    def launch(place: Place) -> Launch:
        program = Path(sys.executable).parent / "quintet"
        return Launch([
            str(program), "run", "--controllers", "jsonserver", "--kubeconfig", str(place.kubeconfig),
            "--namespace", place.namespace, "--health-address", "127.0.0.1:0", "--workers", str(workers),
        ])  # fmt: skip

    return Contender(QUINTET, launch)


def controller_runtime(go: Path, *, apply: bool) -> Contender:
    """The tuned Go operator: typed, 16 workers, no client-side rate limit."""

    def launch(place: Place) -> Launch:
        where = ["-kubeconfig", str(place.kubeconfig), "-namespace", place.namespace]
        argv = [str(go / "operator"), *where, "-workers", str(WORKERS), f"-apply={str(apply).lower()}"]
        return Launch(argv, {"BENCH_TEMPLATE": plans.template(PEOPLE)})

    return Contender(CR_APPLY if apply else CR_CREATE, launch)


def kopf(python: Path) -> Contender:
    """The newest Kopf, with uvloop, without a worker limit, events or needless patches."""

    def launch(place: Place) -> Launch:
        script = str(HERE / "peers/kopf/operator.py")
        where = ["--namespace", place.namespace] if place.namespace else ["--all-namespaces"]
        argv = [str(python), "-m", "kopf", "run", "--standalone", "--quiet", *where, script]
        return Launch(argv, {"KUBECONFIG": str(place.kubeconfig), "BENCH_TEMPLATE": plans.template(PEOPLE)})

    return Contender(KOPF, launch)


def replaying(
    name: str,
    go: Path,
    cluster: Cluster,
    plan: Callable[[Sequence[JsonServer]], Path],
    watched: Sequence[Resource] = (),
) -> Contender:
    """Prepared requests over 16 keep-alive connections; what is watched meanwhile is thrown away."""
    pki = cluster.directory / "pki"

    def launch(place: Place) -> Launch:
        watches = [word for each in watched for word in ("-watch", f"{each.path(place.namespace)}?watch=1")]
        return Launch([
            str(go / "replay"), "-server", cluster.server, "-ca", str(cluster.ca),
            "-cert", str(pki / "admin.crt"), "-key", str(pki / "admin.key"), "-connections", str(WORKERS),
            "-stay", *watches,
        ])  # fmt: skip

    return Contender(name, launch, plan)


def operators(progress: programs.Progress) -> dict[str, Contender]:
    """Those that need no plan, by name."""
    go, python = programs.go_programs(progress), programs.python_environment(progress)
    found = (
        quintet(),
        controller_runtime(go, apply=False),
        controller_runtime(go, apply=True),
        kopf(python),
    )
    return {each.name: each for each in found}
