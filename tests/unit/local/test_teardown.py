"""The module that kills and removes refuses targets that are not provably of a cluster."""

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quintet.local import teardown
from quintet.local.node.cgroups import Cgroup, cluster_cgroup

LOCAL = Path(teardown.__file__).parent
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
DESTRUCTIVE = {
    "kill",
    "killpg",
    "pidfd_send_signal",
    "rmtree",
    "rmdir",
    "unlink",
    "remove",
    "removedirs",
    "terminate",
}
# Each ends a child process that this very function started and has not waited for.
OWN_CHILDREN = {"build/programs.py:kill", "kubectl.py:kill"}


# Programs that change the system, in the modules that may run them; docs/embedded-cluster.md says on what.
CHANGING = {
    "node/filesystems.py": {"mount", "mkfs.ext4", "e2fsck", "losetup", "resize2fs"},
    "node/namespace.py": {"ip", "mount"},
    "node/power.py": {"ip"},
    "node/programs.py": {"mount"},
    "teardown.py": {"umount"},
    "build/packages.py": {"apt-get"},
}
PROGRAMS = {
    *set().union(*CHANGING.values()),
    "nft",
    "iptables",
    "sysctl",
    "modprobe",
    "swapoff",
    "systemctl",
    "chown",
}
PAGE = Path(__file__).parents[3] / "docs/embedded-cluster.md"


def calls(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, ast.unparse(node.func.value)
        if isinstance(node, ast.Constant) and node.value in ("umount", "rm", "kill"):
            yield node.value, ""


def test_only_teardown_module_kills_unmounts_or_removes():
    found = {
        f"{path.relative_to(LOCAL)}:{name}"
        for path in LOCAL.rglob("*.py")
        for name, owner in calls(path)
        if path.stem != "teardown" and (name in DESTRUCTIVE or not owner) and owner not in ("self",)
    }
    assert found - OWN_CHILDREN == set()


def programs(path):
    """Return the programs that change the system and are the first word of a list, a tuple or the arguments."""
    for node in ast.walk(ast.parse(path.read_text())):
        words = node.elts if isinstance(node, ast.List | ast.Tuple) else []
        words += node.args if isinstance(node, ast.Call) else []
        yield from (each.value for each in words if isinstance(each, ast.Constant) and each.value in PROGRAMS)


def test_only_listed_modules_run_programs_that_change_the_system():
    found = {path: set(programs(path)) for path in LOCAL.rglob("*.py")}
    used = {str(path.relative_to(LOCAL)): names for path, names in found.items() if names}
    # These only ask apt for the names of package sources.
    assert used.pop("images/bases.py") == {"apt-get"}
    assert used == CHANGING


def test_documentation_lists_every_module_that_kills_removes_or_changes_the_system():
    section = PAGE.read_text().partition("## What it can kill and remove")[2].partition("\n## ")[0]
    functions = [
        node.name
        for node in ast.parse(Path(teardown.__file__).read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(("_", "check_", "list_", "find_"))
    ]
    named = {
        *functions,
        *(Path(each).name for each in CHANGING),
        *(each.partition(":")[0] for each in OWN_CHILDREN),
    }
    assert sorted(each for each in named - {"teardown.py", "packages.py"} if each not in section) == []
    assert "apt" in section
    tests = set(re.findall(r"`(test_\w+\.py)`", section))
    assert sorted(each for each in tests if not list(PAGE.parents[1].glob(f"tests/*/**/{each}"))) == []


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "/", "quintet-x", "quintet--00000000", "quintet-x-0000000g", "a/quintet-x-00000000"],
)
def test_teardown_refuses_cgroup_name_of_no_cluster(name, tmp_path, harmless):
    with pytest.raises(teardown.RefusedError):
        Cgroup(name)
    with pytest.raises(teardown.RefusedError):
        teardown.remove_cgroup(name, [tmp_path / "hierarchy"])
    assert harmless == []


@pytest.mark.parametrize("node", [".", "..", "/", "node-", "node-0", "node-1/..", "kubepods"])
def test_teardown_refuses_cgroup_name_of_no_node(node, tmp_path, harmless):
    with pytest.raises(teardown.RefusedError):
        Cgroup("quintet-x-00000000", node)
    with pytest.raises(teardown.RefusedError):
        teardown.remove_cgroup("quintet-x-00000000", [tmp_path / "hierarchy"], node)
    assert harmless == []


def test_cgroup_name_is_derived_from_resolved_cluster_folder(tmp_path):
    (tmp_path / "real/x").mkdir(parents=True)
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert cluster_cgroup(tmp_path / "alias/x") == cluster_cgroup(tmp_path / "real/x")
    assert cluster_cgroup(tmp_path / "real/x") != cluster_cgroup(tmp_path / "x")


def test_signal_process_sends_only_while_process_is_ours():
    with subprocess.Popen(SLEEP) as process:
        teardown.signal_process(process.pid, signal.SIGKILL, lambda: False)
        assert process.poll() is None
        teardown.signal_process(process.pid, signal.SIGKILL, lambda: True)
        assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "pid", [-1, 0, 1, os.getpid()], ids=["every process", "its process group", "init", "itself"]
)
def test_signal_process_refuses_pid_of_group_init_or_self(pid, harmless):
    with pytest.raises(teardown.RefusedError):
        teardown.signal_process(pid, 0, lambda: True)
    assert harmless == []


@pytest.mark.parametrize("remove", [teardown.remove_tree, teardown.remove_file])
@pytest.mark.parametrize("path", ["", "..", "../other/file", "own/../../other/file", "link/file"], ids=repr)
def test_teardown_refuses_path_outside_given_folder(tmp_path, remove, path, harmless):
    for name in ("cluster/own", "other"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("kept")
    (tmp_path / "cluster/link").symlink_to(tmp_path / "other")
    with pytest.raises(teardown.RefusedError, match="refused to remove"):
        remove(tmp_path / "cluster" / path, within=tmp_path / "cluster")
    assert (tmp_path / "other/file").read_text() == "kept"
    assert (tmp_path / "cluster/own/file").read_text() == "kept"


def test_remove_tree_does_not_follow_links(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("kept")
    (tmp_path / "cluster/own").mkdir(parents=True)
    (tmp_path / "cluster/own/link").symlink_to(tmp_path / "other")
    teardown.remove_tree(tmp_path / "cluster/own", within=tmp_path / "cluster")
    teardown.remove_tree(tmp_path / "cluster/own", within=tmp_path / "cluster")
    assert list((tmp_path / "cluster").iterdir()) == []
    assert (tmp_path / "other/file").exists()


@pytest.mark.parametrize("tag", ["debian:bookworm", "quintet.local/quintet:0.1.0", "quintet.local/x:build-1"])
def test_remove_build_tag_refuses_tag_of_no_build(tag):
    with pytest.raises(teardown.RefusedError):
        teardown.remove_build_tag("false", tag)


def test_remove_if_empty_keeps_nonempty_folder(tmp_path):
    (tmp_path / "full/file").parent.mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "empty").mkdir()
    teardown.remove_if_empty(tmp_path / "full", tmp_path / "empty", tmp_path / "never-made")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
