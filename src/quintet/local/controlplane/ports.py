"""Chooses free ports on loopback."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from quintet.local.errors import LocalError

# The size of the range to choose from.
PORTS = 10_000


def free_ports(count: int) -> list[int]:
    """Return distinct free ports on loopback, below the range of outgoing connections.

    Within that range, a client that tries to reconnect can be given the very port that it connects to as its
    source port, and the restarted server then finds its port in use.
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
            raise LocalError("no free port on loopback", "stop programs that listen on many ports")
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32768  # the default of most systems
