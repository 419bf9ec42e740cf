"""A real OLM v0 for a cluster with a node: its two operators and a catalog, as processes in the node's network.

Used by the packaging tests. OLM speaks to the API server as an administrator would; what it makes for an
operator (account, rights, Deployment) is the real thing. `serve` with another folder is a new catalog at
the same address, as a registry would bring it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kit.cluster.node_processes import Beside
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
    """What OLM consists of, built from its Go modules."""

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
    running: dict[str, Beside] = field(default_factory=dict)

    async def serve(self, catalog: Path) -> None:
        """OptionalRole this catalog, in place of the one before."""
        if before := self.running.pop("opm", None):
            before.stop()
        opm = self._run("opm", self.programs.opm, "serve", str(catalog), f"--port={PORT}", "--pprof-addr=")

        def serving() -> None:
            assert any("serving registry" in line for line in opm.said.copy()), opm.last()

        await eventually(serving, within=120)

    def log(self) -> str:
        """The end of what each program said."""
        return "\n".join(f"{name}:\n{program.last()}" for name, program in self.running.items())

    def start(self) -> None:
        """Start both operators; their kinds must be served already."""
        self._run("olm", self.programs.olm, f"--namespace={NAMESPACE}")
        images = (f"--opmImage={_UNUSED}", f"--util-image={_UNUSED}")
        self._run("catalog", self.programs.catalog, f"--namespace={NAMESPACE}", *images)

    def stop(self) -> None:
        """End every program."""
        while self.running:
            self.running.popitem()[1].stop()

    def _run(self, name: str, program: Path, *arguments: str) -> Beside:
        environment = {
            "KUBECONFIG": str(self.cluster.directory / "pki/admin.kubeconfig"),
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
        }
        self.running[name] = Beside(self.cluster, str(program), *arguments, environment=environment)
        return self.running[name]


@contextmanager
def an_olm(cluster: Cluster, programs: Programs, folder: Path) -> Iterator[Olm]:
    """OLM, started and without a catalog; nothing of it runs afterwards."""
    definitions = [f"--filename={path}" for path in sorted(programs.definitions.glob("*.yaml"))]
    _checked(cluster, "apply", "--server-side", *definitions)
    _checked(cluster, "wait", "--for=condition=Established", "--timeout=120s", *definitions)
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": _FIRST})
    _checked(cluster, "apply", "--filename=-", input=text)
    olm = Olm(cluster, programs, folder)
    try:
        olm.start()
        yield olm
    finally:
        olm.stop()


def _checked(cluster: Cluster, *arguments: str, **options: Any) -> None:
    answer = cluster.kubectl(*arguments, **options)
    assert answer.returncode == 0, answer.stderr
