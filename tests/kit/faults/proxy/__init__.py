"""A recording fault proxy between an operator and the API server.

    async with FaultProxy(cluster.kubeconfig) as proxy:
        operator = start(proxy.write_kubeconfig(tmp_path))
        proxy.inject(DropReply(), at_write=3)
        await proxy.wait_for(matching("update", "jsonservers", subresource="status"))

`requests` parses requests, `trace` records them, `faults` defines the faults, `call` and `stream` carry out faults on
requests and watches, `server` is the proxy.
"""

from kit.faults.proxy.faults import (
    Answer,
    Before,
    CutMidLine,
    Delay,
    DropReply,
    GoneEvent,
    KillAfterCommit,
    KillBefore,
    Refuse,
    Stall,
)
from kit.faults.proxy.requests import Request, anything, changes_state, matching
from kit.faults.proxy.server import FaultProxy, Injection
from kit.faults.proxy.stream import Hold
from kit.faults.proxy.trace import Exchange, Trace

__all__ = [
    "Answer",
    "Before",
    "CutMidLine",
    "Delay",
    "DropReply",
    "Exchange",
    "FaultProxy",
    "GoneEvent",
    "Hold",
    "Injection",
    "KillAfterCommit",
    "KillBefore",
    "Refuse",
    "Request",
    "Stall",
    "Trace",
    "anything",
    "changes_state",
    "matching",
]
