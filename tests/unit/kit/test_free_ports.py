"""Free ports for test processes."""

from kit.cli.quintet import free_port
from quintet.local.controlplane.ports import _first_outgoing_port


def test_free_port_returns_no_port_twice_and_no_ephemeral_port():
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    assert max(ports) < _first_outgoing_port()


def test_two_workers_never_choose_same_port(monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "3")
    given = []
    for worker in ("gw0", "gw1", "gw2"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        given.append({free_port() % 3 for _ in range(20)})
    assert given == [{0}, {1}, {2}]
