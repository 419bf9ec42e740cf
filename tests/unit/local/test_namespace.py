"""The processes that set up namespaces never change those of the machine."""

import os
import platform
import socket
import subprocess
import sys

import pytest

from quintet.local.node import namespace

NETWORK = namespace.Network("192.0.2.1", {"198.51.100.0/24": "192.0.2.2"})


class Held(BaseException):
    """Raised in place of the program that holds the namespaces."""


@pytest.fixture
def done(monkeypatch):
    """Recorded steps; nothing is really mounted or linked."""
    done = []

    def hold(*_):
        raise Held

    monkeypatch.setattr(namespace, "create_switch", done.append)
    monkeypatch.setattr(namespace, "connect_to_switch", done.append)
    monkeypatch.setattr(namespace, "create_mounts", lambda *folders: done.append(folders))
    monkeypatch.setattr(namespace, "relay_connections", lambda listener: listener.close())
    monkeypatch.setattr(namespace.asyncio, "run", hold)
    monkeypatch.setattr(namespace.os, "execvp", hold)
    return done


def start(role, tmp_path, outside):
    ready = tmp_path / namespace.READY
    arguments = (role, NETWORK.to_json(), str(ready), ",".join(outside))
    if role == "node":
        namespace.main(*arguments, str(tmp_path), str(tmp_path / "nodes/1"))
    with socket.socket() as listener:
        namespace.main(*arguments, str(os.dup(listener.fileno())))


@pytest.mark.parametrize("role", ["switch", "node"])
def test_namespace_process_refuses_to_run_without_outside_namespaces(role, tmp_path, done):
    with pytest.raises(SystemExit, match="refusing to change network and mounts of the machine"):
        start(role, tmp_path, [])
    assert done == []


@pytest.mark.parametrize(
    ("role", "shared"),
    [("switch", 0), ("node", 0), ("node", 1)],
    ids=["switch in the network", "node in the network", "node in the mounts"],
)
def test_namespace_process_refuses_to_run_in_machine_namespace(role, shared, tmp_path, done):
    outside = ["net:[1]", "mnt:[1]"]
    outside[shared] = namespace.namespace_ids()[shared]
    with pytest.raises(SystemExit):
        start(role, tmp_path, outside)
    assert done == []


def test_switch_sets_up_own_network_and_no_mounts(tmp_path, done):
    # Its mounts are those of the machine, which it does not change.
    with pytest.raises(Held):
        start("switch", tmp_path, ["net:[1]", namespace.namespace_ids()[1]])
    assert done == [NETWORK]
    assert (tmp_path / namespace.READY).exists()


def test_node_sets_up_own_mounts_and_network(tmp_path, done):
    with pytest.raises(Held):
        start("node", tmp_path, ["net:[1]", "mnt:[1]"])
    assert done == [(tmp_path, tmp_path / "nodes/1"), NETWORK]
    assert (tmp_path / namespace.READY).exists()


def read_hardware_address(switch):
    """Connect a new network namespace to the switch; return the MAC address of its link."""
    code = (
        "from quintet.local.node import namespace\n"
        f"namespace.connect_to_switch(namespace.Network('192.0.2.11', {{}}, {switch.pid}, 'node-1'))\n"
        "print(open('/sys/class/net/eth0/address').read())"
    )
    # /sys shows the network namespace in which it was mounted.
    mount = 'mount -t sysfs sysfs /sys && exec "$@"'
    command = ["unshare", "--net", "--mount", "sh", "-c", mount, "-", sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(platform.system() != "Linux" or os.geteuid() != 0, reason="network namespaces need root")
def test_node_that_returns_has_the_same_hardware_address():
    """With another one, its neighbours would send to the old one until their entries expire."""
    code = (
        "from quintet.local.node import namespace\n"
        "namespace.create_switch(namespace.Network('192.0.2.1', {}))\n"
        "print('ready', flush=True); input()"
    )
    command = ["unshare", "--net", sys.executable, "-P", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as switch:
        assert switch.stdout.readline() == "ready\n"
        assert read_hardware_address(switch) == read_hardware_address(switch) == "02:00:c0:00:02:0b"
        switch.communicate("\n")
