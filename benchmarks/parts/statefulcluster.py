"""Compares StatefulClusters with the StatefulSets of kube-controller-manager: same pods, same claims.

Each contender has a new control plane and a simulated node (`kit.cluster.simulated_node`), where pods
are bound and ready at once, so only the cost of the controller and the servers remains.
kube-controller-manager runs only the StatefulSet controller, without its request limit.
"""

import contextlib
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks import ROOT, report
from benchmarks.contenders import Launch
from benchmarks.control_plane import ControlPlane, fresh_control_plane
from benchmarks.measure import Usage, load_average, memory_mb
from benchmarks.pod_sets import Follower, Kind, Sets
from benchmarks.process import ContenderProcess, clock, start_process
from benchmarks.programs import Progress
from benchmarks.workloads import run_in_parallel
from kit.cluster.api import Api
from kit.cluster.simulated_node import SimulatedNode
from kit.eventually import eventually

NAMESPACE = "sets"
WORKERS = 16
IDLE = 10.0
SETTLE = 1.0
STATEFUL_CLUSTER = Kind("/apis/enge.me/v1alpha1", "StatefulCluster", "statefulclusters")
STATEFUL_SET = Kind("/apis/apps/v1", "StatefulSet", "statefulsets")
CRD = ROOT / "config/crd/statefulclusters.enge.me.yaml"
# Resources that a controller of pods requests. The API server sends requests to itself too, for example for
# PodDisruptionBudgets on every eviction.
COUNTED = {
    "pods", "persistentvolumeclaims", "persistentvolumes", "storageclasses", "controllerrevisions",
    "events", "services", STATEFUL_CLUSTER.plural, STATEFUL_SET.plural,
}  # fmt: skip
_COUNTER = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Phase:
    """Figures of one contender in one phase."""

    contender: str
    name: str
    pods: int
    seconds: float
    cpu_seconds: dict[str, float]
    """CPU seconds of the controller, the API server and etcd."""
    peak_mb: float
    writes: dict[str, int]
    reads: dict[str, int]
    others: float
    """Share of the CPUs used by unrelated processes."""


async def run(count: int, replicas: int, rounds: int, progress: Progress) -> list[Phase]:
    """Run both contenders in turn, for a number of rounds."""
    found: list[Phase] = []
    for number in range(rounds):
        for name, kind, launch, ready in CONTENDERS:
            progress(
                f"  round {number + 1}/{rounds}: {name}, {count} sets of {replicas}, load {load_average()}"
            )
            found += await _contender(name, launch, ready, Sets(kind, NAMESPACE, count, replicas), progress)
            report.keep_details("statefulcluster", [asdict(phase) for phase in found])
    return found


def quintet(plane: ControlPlane) -> Launch:
    """Return Quintet, started as users start it."""
    program = Path(sys.executable).parent / "quintet"
    return Launch([
        str(program), "run", "--controllers", "statefulcluster", "--namespace", NAMESPACE,
        "--kubeconfig", str(plane.cluster.kubeconfig), "--health-address", "127.0.0.1:0",
        "--workers", str(WORKERS),
    ])  # fmt: skip


def controller_manager(plane: ControlPlane) -> Launch:
    """Return kube-controller-manager with only the StatefulSet controller."""
    kubeconfig = plane.cluster.kubeconfig
    flags = {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "controllers": "statefulset-controller",
        "concurrent-statefulset-syncs": WORKERS,
        "leader-elect": "false",
        "secure-port": 0,
        "kube-api-qps": 10000,
        "kube-api-burst": 10000,
    }
    program = plane.cluster.programs / "kube-controller-manager"
    return Launch([str(program), *(f"--{name}={value}" for name, value in flags.items())])


CONTENDERS: Sequence[tuple[str, Kind, Callable[[ControlPlane], Launch], str]] = (
    ("quintet", STATEFUL_CLUSTER, quintet, "Caches synced"),
    ("kube-controller-manager", STATEFUL_SET, controller_manager, "Caches are synced"),
)


async def _contender(
    name: str, launch: Callable[[ControlPlane], Launch], ready: str, sets: Sets, progress: Progress
) -> list[Phase]:
    async with _scene(progress, sets.kind) as (plane, api, node), start_process(launch(plane)) as process:
        stage = _Stage(name, plane, api, node, sets, process)
        await process.wait_for_output(ready, 60.0)
        acts = {"create": stage.create, "idle": stage.idle, "update": stage.update}
        phases = []
        for each, act in acts.items():
            phases.append(await stage.phase(each, act))
            progress(f"    {_summary(phases[-1])}")
        return phases


@contextlib.asynccontextmanager
async def _scene(progress: Progress, kind: Kind) -> AsyncIterator[tuple[ControlPlane, Api, SimulatedNode]]:
    """Start a control plane with one namespace and a simulated node."""
    async with fresh_control_plane(progress) as plane, Api.connect(plane.cluster.kubeconfig) as api:
        if kind is STATEFUL_CLUSTER:
            result = plane.cluster.kubectl("apply", "--server-side", "-f", str(CRD))
            if result.returncode != 0:
                raise RuntimeError(f"the CRD was not accepted: {result.stderr}")
            await eventually(lambda: api.get(f"{kind.prefix}/{kind.plural}"))
        await plane.scene.namespace(NAMESPACE)
        # The controller that creates it does not run here.
        account = {"metadata": {"name": "default"}}
        await api.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        async with SimulatedNode(api, namespace=NAMESPACE).running() as node:
            yield plane, api, node


@dataclass
class _Stage:
    """The phases of one contender."""

    contender: str
    plane: ControlPlane
    api: Api
    node: SimulatedNode
    sets: Sets
    process: ContenderProcess
    own: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    """Requests of the benchmark itself."""

    async def create(self, follower: Follower) -> float:
        """Create all sets; done when every status reports every pod ready."""
        self.own["POST", self.sets.kind.plural] += self.sets.count
        await run_in_parallel(
            lambda name: self.api.create(self.sets.path(), self.sets.body(name)), self.sets.names()
        )
        done = await follower.all(self.sets.is_ready, self.process, self._timeout)
        await self._check_complete()
        return done

    async def update(self, follower: Follower) -> float:
        """Change every template; done when every pod is replaced and ready."""
        patch = self.sets.change("second")
        self.own["PATCH", self.sets.kind.plural] += self.sets.count
        await run_in_parallel(lambda name: self.api.merge(self.sets.path(name), patch), self.sets.names())
        done = await follower.all(self.sets.is_updated, self.process, self._timeout)
        await self._check_complete()
        return done

    async def idle(self, follower: Follower) -> float:
        """Wait without changes."""
        await clock.sleep(IDLE)
        return time.monotonic()

    async def phase(self, name: str, act: Callable[[Follower], Awaitable[float]]) -> Phase:
        """Run a phase and measure it, plus one second for unfinished work."""
        pids = {**self.plane.pids, "controller": self.process.pid}
        counted = await self._requests()
        self.own["LIST", self.sets.kind.plural] += 1
        async with Follower(self.api, self.sets) as follower:
            before, begun = Usage.of(pids), time.monotonic()
            done = await act(follower)
            await clock.sleep(SETTLE)
            after = Usage.of(pids)
        made = await self._requests() - counted
        return Phase(
            contender=self.contender,
            name=name,
            pods=self.sets.pods,
            seconds=done - begun,
            cpu_seconds=after.since(before),
            peak_mb=memory_mb(self.process.pid),
            writes=_select(made, lambda verb: verb in WRITES),
            reads=_select(made, lambda verb: verb in READS),
            others=after.others_since(before),
        )

    @property
    def _timeout(self) -> float:
        return 120.0 + self.sets.pods * 0.5

    async def _check_complete(self) -> None:
        """Raise an error if the number of pods or claims is wrong."""
        for plural in ("pods", "persistentvolumeclaims"):
            self.own["LIST", plural] += 1
            found = (await self.api.get(f"/api/v1/namespaces/{NAMESPACE}/{plural}"))["items"]
            if len(found) != self.sets.pods:
                raise RuntimeError(f"{self.contender}: {len(found)} {plural} instead of {self.sets.pods}")

    async def _requests(self) -> "Counter[tuple[str, str]]":
        """Return the requests that the API server has handled, without those of benchmark and node."""
        found: Counter[tuple[str, str]] = Counter()
        for labels, value in _COUNTER.findall(await self.plane.scene.metrics()):
            each = dict(_LABEL.findall(labels))
            if each["resource"] in COUNTED:
                what = "/".join(filter(None, (each["resource"], each["subresource"])))
                found[each["verb"], what] += int(float(value))
        return found - self.own - self.node.requests


WRITES = ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")
READS = ("GET", "LIST")


def _select(found: "Counter[tuple[str, str]]", wanted: Callable[[str], bool]) -> dict[str, int]:
    return {
        f"{verb} {what}": number for (verb, what), number in sorted(found.items()) if wanted(verb) and number
    }


def _summary(phase: Phase) -> str:
    cpu = ", ".join(f"{part} {seconds:.1f}" for part, seconds in sorted(phase.cpu_seconds.items()))
    return (
        f"{phase.name}: {phase.seconds:.1f} s; CPU s: {cpu}; {phase.peak_mb:.0f} MB; "
        f"{sum(phase.writes.values())} writes, {sum(phase.reads.values())} reads; others {phase.others:.0%}"
    )


HEADINGS = [
    "contender", "phase", "s", "CPU ms/pod", "apiserver", "etcd", "peak MB",
    "writes/pod", "reads/pod", "others",
]  # fmt: skip


def rows(found: Sequence[Phase]) -> list[list[str]]:
    """Return the rows of the table, one per phase."""
    shown = []
    for each in found:
        cpu = [each.cpu_seconds[part] * 1000 / each.pods for part in ("controller", "apiserver", "etcd")]
        requests = [sum(part.values()) / each.pods for part in (each.writes, each.reads)]
        figures = [f"{each.seconds:.1f}", *(f"{value:.2f}" for value in cpu), f"{each.peak_mb:.0f}"]
        last = [*(f"{value:.2f}" for value in requests), f"{each.others:.0%}"]
        shown.append([each.contender, each.name, *figures, *last])
    return shown


def request_counts(found: Sequence[Phase]) -> str:
    """Return the requests of each phase by type, as text."""
    return "\n".join(
        f"{each.contender}, {each.name}: "
        + ", ".join(f"{number} {what}" for what, number in {**each.writes, **each.reads}.items())
        for each in found
    )
