"""A real OLM v0 for a cluster with a node: its two operators and a catalog, as processes in the node's network.

OLM has the identity of an administrator; ServiceAccount, permissions and Deployment of the installed operator are real.
`serve` with another folder replaces the catalog at the same address, as a registry would.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.cluster.node_processes import NodeProcess
from kit.eventually import eventually
from quintet.local.cluster import Cluster

NAMESPACE = "olm"
PORT = 50051
ADDRESS = f"127.0.0.1:{PORT}"
# Only bundles that are images are unpacked with these; those of our catalogs hold their objects.
_UNUSED = "not-used.invalid/image:0"
_FIRST = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OLMConfig",
        "metadata": {"name": "cluster"},
        "spec": {"features": {"disableCopiedCSVs": True}},
    },
)


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of OLM, built from their Go modules."""

    olm: Path
    catalog: Path
    opm: Path
    definitions: Path


@dataclass(slots=True)
class Olm:
    """A running OLM."""

    cluster: Cluster
    programs: Programs
    folder: Path
    """For what the programs put down."""
    running: dict[str, NodeProcess] = field(default_factory=dict)

    async def serve(self, catalog: Path) -> None:
        """Serve this catalog in place of the previous one."""
        if before := self.running.pop("opm", None):
            before.stop()
        opm = self._run("opm", self.programs.opm, "serve", str(catalog), f"--port={PORT}", "--pprof-addr=")

        def serving() -> None:
            assert any("serving registry" in line for line in opm.said.copy()), opm.last()

        await eventually(serving, within=120)

    def log(self) -> str:
        """Return the last lines of each program's output."""
        return "\n".join(f"{name}:\n{program.last()}" for name, program in self.running.items())

    def start(self) -> None:
        """Start both operators; their CRDs must be served already."""
        self._run("olm", self.programs.olm, f"--namespace={NAMESPACE}")
        images = (f"--opmImage={_UNUSED}", f"--util-image={_UNUSED}")
        self._run("catalog", self.programs.catalog, f"--namespace={NAMESPACE}", *images)

    def stop(self) -> None:
        """Stop every program."""
        while self.running:
            self.running.popitem()[1].stop()

    def _run(self, name: str, program: Path, *arguments: str) -> NodeProcess:
        environment = {
            "KUBECONFIG": str(self.cluster.directory / "pki/admin.kubeconfig"),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
        }
        self.running[name] = NodeProcess(self.cluster, str(program), *arguments, environment=environment)
        return self.running[name]


@contextmanager
def an_olm(cluster: Cluster, programs: Programs, folder: Path) -> Iterator[Olm]:
    """Run OLM without a catalog while inside."""
    definitions = [f"--filename={path}" for path in sorted(programs.definitions.glob("*.yaml"))]
    _kubectl(cluster, "apply", "--server-side", *definitions)
    _kubectl(cluster, "wait", "--for=condition=Established", "--timeout=120s", *definitions)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": _FIRST})
    _kubectl(cluster, "apply", "--filename=-", input=text)
    olm = Olm(cluster, programs, folder)
    try:
        olm.start()
        yield olm
    finally:
        olm.stop()


def _kubectl(cluster: Cluster, *arguments: str, **options: Any) -> None:
    answer = cluster.kubectl(*arguments, **options)
    assert answer.returncode == 0, answer.stderr
