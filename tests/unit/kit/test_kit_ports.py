"""Ports for programs of tests."""

from kit.quintet import free_port
from quintet.local.controlplane import _first_outgoing_port


def test_no_port_is_given_twice_and_none_that_outgoing_connections_get():
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    assert max(ports) < _first_outgoing_port()
