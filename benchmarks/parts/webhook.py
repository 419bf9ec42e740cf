"""Measures webhooks under load: reviews at a fixed rate, sent directly to the webhook port.

Half of them are for defaulting, half for validation. A latency counts from the time when the request was
due, so a server that falls behind cannot hide it.
"""

import base64
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import contenders, plans, programs
from benchmarks.contenders import Launch, Target
from benchmarks.control_plane import ControlPlane
from benchmarks.plans import Planned
from benchmarks.process import ContenderProcess, clock, start_process
from benchmarks.programs import Progress
from benchmarks.workloads import Workload
from quintet.admission.registration import LOCAL_NAME, VALIDATING
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, ObjectKey
from quintet.kube.errors import NotFound
from quintet.local.controlplane.ports import free_ports

RATE = 200.0
SECONDS = 10.0


async def measure_latencies(
    plane: ControlPlane, progress: Progress, rate: float = RATE, seconds: float = SECONDS
) -> list[float]:
    """Send reviews at a fixed rate; return the latencies in milliseconds."""
    replay = programs.go_programs(progress) / "replay"
    port = free_ports(1)[0]
    target = Target(plane.cluster.kubeconfig, "default")
    started = contenders.quintet().launch(target)
    hooks = ["--webhooks", "url", "--webhook-port", str(port)]
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        units = ([each] for each in _reviews(int(rate * seconds)))
        plan = plans.write(Path(scratch) / "plan", units)
        authority = Path(scratch) / "ca.crt"
        async with start_process(Launch([*started.argv, *hooks])) as server:
            authority.write_bytes(await _bundle(plane, server))
            sender = Launch([
                str(replay), "-server", f"https://127.0.0.1:{port}", "-ca", str(authority),
                "-rate", str(rate),
            ], stdin=plan)  # fmt: skip
            async with start_process(sender) as client:
                await client.wait()
                answer = json.loads(client.output())
    if answer["failures"]:
        raise RuntimeError(f"{answer['failures']} reviews failed: {answer['firstFailure']}")
    return list(answer["latenciesMs"])


def _reviews(count: int) -> Iterator[Planned]:
    for number in range(count):
        verb = ("mutate", "validate")[number % 2]
        path = f"/{verb}/{JSONSERVERS.qualified}"
        yield Planned("POST", path, "application/json", review(number))


def review(number: int) -> JsonObject:
    """Return an AdmissionReview as the API server sends it."""
    name = f"app-{number:06d}"
    resource = {"group": JSONSERVERS.group, "version": JSONSERVERS.version, "resource": JSONSERVERS.plural}
    request = {
        "uid": f"00000000-0000-0000-0000-{number:012d}",
        "operation": "CREATE",
        "resource": resource,
        "namespace": "default",
        "name": name,
        "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
        "object": Workload(1).body(name),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def _bundle(plane: ControlPlane, server: ContenderProcess) -> bytes:
    """Return the CA bundle that the server registers for its webhooks."""
    for _ in range(600):
        server.check()
        try:
            found: dict[str, Any] = await plane.scene.client.get(
                VALIDATING, ObjectKey("", LOCAL_NAME), dict[str, Any]
            )
            return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
        except (NotFound, KeyError):
            await clock.sleep(0.1)
    raise RuntimeError(f"the webhooks did not register; output of the server:\n{server.output()[-2000:]}")
