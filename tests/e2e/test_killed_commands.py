"""`up` and `down` of a cluster with nodes, killed at random moments and repeated: nothing is left."""

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.commands import eventually
from e2e.conftest import COMMAND
from e2e.machine_state import CLUSTER, MachineState
from quintet.local import cluster as local

pytestmark = [pytest.mark.node, pytest.mark.exhaustive, pytest.mark.slow, pytest.mark.timeout(3600)]

UP = (COMMAND, "up", "--nodes", "2", "--zones", "a,b", "--name", CLUSTER)
DOWN = (COMMAND, "down", "--name", CLUSTER)


@pytest.fixture
def neighbour(state: Path) -> Iterator[local.Cluster]:
    """Another cluster of the same user, which must not be touched."""
    yield local.up("neighbour")
    local.down("neighbour")


@pytest.fixture
def before(neighbour: local.Cluster, state: Path) -> MachineState:
    return MachineState.read(state)


def run(*command: object) -> float:
    """Run a command and return how long it took."""
    begun = time.monotonic()
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - begun


def kill_after(seconds: float, *command: object) -> bool:
    """Run a command and send SIGKILL after this time; return whether it still ran."""
    with subprocess.Popen(
        [str(each) for each in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as it:
        try:
            it.wait(seconds)
        except subprocess.TimeoutExpired:
            it.kill()
    return it.returncode < 0


def assert_only_neighbour_is_left(
    neighbour: local.Cluster, before: MachineState, state: Path, when: str
) -> None:
    def left() -> dict[str, list[str]]:
        # etcd of the neighbour writes new files.
        added = MachineState.read(state).added_since(before)
        files = [each for each in added.pop("files", []) if not each.startswith(str(neighbour.directory))]
        return added | ({"files": files} if files else {})

    eventually(lambda: left() == {}, f"nothing is left of {when}", lambda: str(left()), seconds=30)
    assert neighbour.is_healthy(), when
    assert before.processes <= MachineState.read(state).processes, when


def test_up_and_down_killed_at_20_random_moments_leave_nothing(
    state: Path, neighbour: local.Cluster, before: MachineState
) -> None:
    moments, start, stop = random.Random(), run(*UP), run(*DOWN)
    killed = {"up": 0, "down": 0}
    while killed["up"] < 10:
        moment = moments.uniform(0, start)
        killed["up"] += kill_after(moment, *UP)
        run(*DOWN)
        assert_only_neighbour_is_left(neighbour, before, state, f"up, killed after {moment:.3f} s")
    while killed["down"] < 10:
        run(*UP)
        moment = moments.uniform(0, stop)
        killed["down"] += kill_after(moment, *DOWN)
        run(*DOWN)
        assert_only_neighbour_is_left(neighbour, before, state, f"down, killed after {moment:.3f} s")


def test_ten_rounds_of_up_and_down_with_nodes_leak_nothing(
    state: Path, neighbour: local.Cluster, before: MachineState
) -> None:
    for number in range(10):
        run(*UP)
        run(*DOWN)
        assert_only_neighbour_is_left(neighbour, before, state, f"round {number}")
