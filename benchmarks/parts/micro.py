"""Measures hot code paths as multiples of `json.loads` of one Deployment in the same process.

A ratio hardly depends on the machine. baseline.json holds the accepted ratios; a ratio well above its
baseline is marked and does not fail the run.
"""

import asyncio
import json
import timeit
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from benchmarks import ROOT
from kit.kinds.jsonservers import PEOPLE
from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerSpec
from quintet.apis.meta import ObjectKey, ObjectMeta
from quintet.clock import SystemClock
from quintet.controllers.jsonserver.controller import DeploymentView
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.status import ReplicaCounts
from quintet.runtime.ownership import is_unchanged, project, with_ownership
from quintet.runtime.queue import WorkQueue

HERE = ROOT / "benchmarks"
BASELINE = HERE / "baseline.json"
SAMPLE = HERE / "samples/deployment.json"
TOLERANCE = 1.5
IMAGE = "quintet.local/json-server:0.17.4"
MANAGER = "quintet-jsonserver"
HEADINGS = ["path", "µs", "ratio", "baseline", ""]
KEYS = [ObjectKey("bench", f"app-{number}") for number in range(1000)]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Time and ratio of one code path."""

    name: str
    microseconds: float
    ratio: float


def sample() -> tuple[bytes, JsonServer]:
    """Return a recorded Deployment of an API server, and the JsonServer that owns it."""
    raw = SAMPLE.read_bytes()
    owner = json.loads(raw)["metadata"]["ownerReferences"][0]
    namespace = json.loads(raw)["metadata"]["namespace"]
    meta = ObjectMeta(name=owner["name"], namespace=namespace, uid=owner["uid"], generation=1)
    return raw, JsonServer(metadata=meta, spec=JsonServerSpec(json_config=PEOPLE))


def paths() -> dict[str, Callable[[], object]]:
    """Return the measured code paths; each call is one unit of work."""
    raw, server = sample()
    decode = msgspec.json.Decoder(DeploymentView).decode
    shrink = project(JSONSERVERS, MANAGER, _status)
    child = shrink(decode(raw))
    wanted = with_ownership(desired.deployment(server, IMAGE), server, JSONSERVERS)
    encode = msgspec.json.Encoder().encode
    return {
        "decode: bytes to cached child": lambda: shrink(decode(raw)),
        "diff: is the child as wanted": lambda: is_unchanged(child, wanted),
        "build: desired, marked and encoded": lambda: encode(
            with_ownership(desired.deployment(server, IMAGE), server, JSONSERVERS)
        ),
    }


def _status(view: DeploymentView) -> ReplicaCounts:
    return view.status


def queue_round() -> None:
    """Add, get and finish a thousand keys."""

    async def work() -> None:
        queue = WorkQueue("bench", SystemClock())
        for key in KEYS:
            queue.add(key)
        for _ in KEYS:
            queue.done(await queue.get())

    asyncio.run(work())


def measure_paths(repeat: int = 5, number: int = 1000) -> list[Measurement]:
    """Measure every path; keep the minimum of the repetitions, because noise only adds time."""
    raw, _ = sample()
    reference = _microseconds(lambda: json.loads(raw), repeat, number)
    found = [_against(name, _microseconds(call, repeat, number), reference) for name, call in paths().items()]
    rounds = _microseconds(queue_round, repeat, max(1, number // 1000)) / len(KEYS)
    return [_against("queue: add, get, done", rounds, reference), *found]


def rows(found: Sequence[Measurement]) -> list[list[str]]:
    """Return the rows of the table; mark ratios well above their baseline."""
    baseline = json.loads(BASELINE.read_text())
    shown = []
    for each in found:
        accepted = baseline.get(each.name)
        slower = accepted is not None and each.ratio > accepted * TOLERANCE
        shown.append(
            [
                each.name,
                f"{each.microseconds:.1f}",
                f"{each.ratio:.2f}",
                f"{accepted:.2f}" if accepted is not None else "none",
                "SLOWER" if slower else "",
            ]
        )
    return shown


def save(found: Sequence[Measurement]) -> None:
    """Write these ratios to baseline.json."""
    content = {each.name: round(each.ratio, 2) for each in found}
    BASELINE.write_text(json.dumps(content, indent=2) + "\n")


def _microseconds(call: Callable[[], object], repeat: int, number: int) -> float:
    return min(timeit.repeat(call, repeat=repeat, number=number)) / number * 1e6


def _against(name: str, microseconds: float, reference: float) -> Measurement:
    return Measurement(name, microseconds, microseconds / reference)
