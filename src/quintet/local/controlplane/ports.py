"""Chooses free ports on loopback."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from quintet.local.errors import LocalError

# How many ports to choose from.
PORTS = 10_000


def free_ports(count: int) -> list[int]:
    """Return ports on loopback that nobody listens on now; all are held while the others are sought.

    They lie below those that the kernel gives to outgoing connections. A program that is started
    again would otherwise find its port taken, as often as not by its own clients: whoever tries to
    connect to a free port of that range may be given this very port to connect from.
    """
    candidates = list(range(max(1024, _first_outgoing_port() - PORTS), _first_outgoing_port()))
    random.shuffle(candidates)
    held: list[socket.socket] = []
    try:
        while len(held) < count and candidates:
            found = socket.socket()
            try:
                found.bind(("127.0.0.1", candidates.pop()))
                held.append(found)
            except OSError:
                found.close()
        if len(held) < count:
            raise LocalError("no port on loopback is free", "stop what listens on thousands of them")
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768  # what most systems start with
