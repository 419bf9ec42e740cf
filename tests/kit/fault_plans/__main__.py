"""All fault plans of all kinds: `python -m kit.fault_plans [--story NAME] [--plan TEXT] [--fresh]`.

Results are kept in build/fault-plans.jsonl, so that an interrupted campaign goes on where it was; a violation also gets a
file of its own, whose first line names the plan. `--plan` runs the plans whose name contains the text.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from pathlib import Path

from kit.cluster.api import Api
from kit.cluster.control_plane import control_plane
from kit.fault_plans.campaign import Result, learn, replay_all
from kit.fault_plans.stories import STORIES, Stage
from kit.kinds.controllers import install_crds
from kit.nats.server import a_nats_server
from quintet.kube.client import Client
from quintet.kube.config import load
from quintet.kube.transport import Transport

BUILD = Path("build")
RESULTS, VIOLATIONS = BUILD / "fault-plans.jsonl", BUILD / "fault-plans"


async def run_campaign(kubeconfig: Path, scratch: Path, stories: list[str], wanted: str) -> None:
    """Run what has no result yet and print the totals."""
    done = _read_results()
    async with (
        Api.connect(kubeconfig) as api,
        Transport(load(str(kubeconfig))) as transport,
        a_nats_server(scratch / "nats") as nats,
    ):
        client = Client(transport)
        await install_crds(client)
        stage = Stage(api, client, nats, "")
        for name in stories:
            story = STORIES[name]
            reference, plans = await learn(story, stage, kubeconfig, scratch)
            chosen = [plan for plan in plans if wanted in str(plan) and (wanted or str(plan) not in done)]
            print(f"{name}: {len(plans)} plans, {len(chosen)} to run", flush=True)
            async for result in replay_all(story, chosen, reference, stage, kubeconfig, scratch):
                _keep(result)


def _read_results() -> dict[str, bool]:
    """Return for each plan that has run whether it showed a violation."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return {each["plan"]: each["violation"] for each in map(json.loads, lines)}


def _keep(result: Result) -> None:
    entry = {"plan": str(result.plan), "hit": result.hit, "violation": bool(result.violation)}
    with RESULTS.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    if result.violation:
        VIOLATIONS.mkdir(exist_ok=True)
        name = re.sub(r"[^a-z0-9]+", "-", str(result.plan).lower()).strip("-")
        (VIOLATIONS / f"{name}.txt").write_text(result.violation + "\n")
        print(f"violation: {result.plan} (build/fault-plans/{name}.txt)", flush=True)


def main() -> None:
    """Run the campaign; the exit code says whether there is no violation."""
    parser = argparse.ArgumentParser(prog="python -m kit.fault_plans", description=__doc__)
    parser.add_argument("--story", action="append", choices=STORIES, help="only this kind; repeatable")
    parser.add_argument(
        "--plan", default="", help="only plans whose name contains this, also if they have run"
    )
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    if options.fresh:
        RESULTS.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="fault-plans-") as folder, control_plane(Path(folder)) as cluster:
        asyncio.run(run_campaign(cluster.kubeconfig, Path(folder), options.story or [*STORIES], options.plan))
    results = _read_results()
    print(f"plans {len(results)}, violations {sum(results.values())}")
    sys.exit(any(results.values()))


if __name__ == "__main__":
    main()
