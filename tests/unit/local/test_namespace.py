"""The process that sets up a node's namespaces never changes those of the machine."""

import os
import socket

import pytest

from quintet.local.node import namespace


@pytest.fixture
def done(monkeypatch):
    """Recorded steps; nothing is really mounted or linked."""
    done = []
    monkeypatch.setattr(namespace, "create_links", done.append)
    monkeypatch.setattr(namespace, "create_mounts", done.append)

    def relay(listener):
        listener.close()
        done.append("relay")

    monkeypatch.setattr(namespace, "relay_connections", relay)
    monkeypatch.setattr(namespace.asyncio, "run", lambda _: None)
    return done


def start(tmp_path, *outside):
    with socket.socket() as listener:
        namespace.main(str(os.dup(listener.fileno())), str(tmp_path), "192.0.2.1", *outside)


def test_namespace_process_refuses_to_run_without_outside_namespaces(tmp_path, done):
    with pytest.raises(SystemExit, match="refusing to change network and mounts of the machine"):
        start(tmp_path)
    assert done == []


@pytest.mark.parametrize("shared", [0, 1], ids=["network", "mounts"])
def test_namespace_process_refuses_to_run_in_machine_namespace(tmp_path, done, shared):
    outside = ["net:[1]", "mnt:[1]"]
    outside[shared] = namespace.namespace_ids()[shared]
    with pytest.raises(SystemExit):
        start(tmp_path, *outside)
    assert done == []


def test_namespace_process_sets_up_own_namespaces(tmp_path, done):
    start(tmp_path, "net:[1]", "mnt:[1]")
    assert done == ["192.0.2.1", tmp_path, "relay"]
    assert (tmp_path / namespace.READY).exists()
