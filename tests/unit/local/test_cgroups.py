"""The cgroup of a node, on a real cgroup v2 hierarchy where the machine has one."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from quintet.local.errors import LocalError
from quintet.local.node import cgroups
from quintet.local.node.cgroups import Cgroup

# Those that the kernel refuses to give to children of a cgroup with processes of its own.
DOMAIN_CONTROLLERS = {"memory", "io", "hugetlb"}


def unified():
    """Return the mount of cgroup v2 and its domain controllers."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line and os.geteuid() == 0:
            root = Path(line.split()[4])
            found = DOMAIN_CONTROLLERS & set((root / "cgroup.controllers").read_text().split())
            return (root, sorted(found)) if found and os.access(root, os.W_OK) else None
    return None


@pytest.fixture
def container(monkeypatch):
    """A cgroup with a process, like the root of a container's cgroup namespace."""
    found = unified()
    if found is None:
        pytest.skip("needs root and a cgroup v2 hierarchy with a domain controller")
    root, controllers = found
    before = (root / "cgroup.subtree_control").read_text().split()
    added = [each for each in controllers if each not in before]
    for each in added:
        (root / "cgroup.subtree_control").write_text(f"+{each}")
    place = root / f"quintet-unit-test-{os.getpid()}"
    place.mkdir()
    join = ["sh", "-c", 'echo $$ >"$0" && exec cat', str(place / "cgroup.procs")]
    with subprocess.Popen(join, stdin=subprocess.PIPE) as process:
        while str(process.pid) not in (place / "cgroup.procs").read_text().split():
            assert process.poll() is None
        monkeypatch.setattr(cgroups, "find_hierarchies", lambda: [place])
        yield place, process
    for path, _, _ in os.walk(place, topdown=False):
        os.rmdir(path)
    for each in added:
        with suppress(OSError):  # somebody uses it by now
            (root / "cgroup.subtree_control").write_text(f"-{each}")


def test_cgroup_in_container_enables_controllers_after_moving_root_processes(container):
    place, process = container
    group = Cgroup("quintet-x-00000000")
    group.create()
    want = set((place / "cgroup.controllers").read_text().split()) & set(cgroups.CONTROLLERS)
    assert want
    assert want <= set((place / group.name / "cgroup.subtree_control").read_text().split())
    assert (place / "init/cgroup.procs").read_text().split() == [str(process.pid)]
    group.clear()
    assert not (place / group.name).exists()


def test_cgroup_without_processes_gets_no_init_leaf(container):
    place, process = container
    process.stdin.close()
    process.wait()
    Cgroup("quintet-x-00000000").create()
    assert not (place / "init").exists()


def test_cgroup_controllers_that_cannot_be_enabled_raise_error_with_next_step(tmp_path, monkeypatch):
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    monkeypatch.setattr(cgroups, "find_hierarchies", lambda: [tmp_path])
    with pytest.raises(LocalError, match="cannot be enabled") as caught:
        Cgroup("quintet-x-00000000").create()
    assert "run it privileged" in caught.value.next_step
