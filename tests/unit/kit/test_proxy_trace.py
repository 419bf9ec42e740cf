"""When the trace counts as quiet."""

import asyncio

import pytest

from kit.faults.proxy.requests import Request, changes_state, matching
from kit.faults.proxy.trace import Exchange, Trace

SOON = 0.02


def enter(
    trace: Trace, verb: str, resource: str = "pods", group: str = "", fault: str | None = None
) -> Exchange:
    request = Request(verb=verb, group=group, resource=resource, query={})
    exchange = trace.enter(request, user_agent="", body=None)
    exchange.fault = fault
    return exchange


@pytest.mark.parametrize("verb", ["create", "get", "list"])
async def test_trace_is_not_quiet_while_response_is_pending(verb):
    trace = Trace(changes_state)
    exchange = enter(trace, verb)
    waiting = asyncio.create_task(trace.quiet(SOON, changes_state, within=30.0))
    await asyncio.wait([waiting], timeout=5 * SOON)
    assert not waiting.done(), "the answer may lead to a write"
    trace.leave(exchange)
    await waiting


@pytest.mark.parametrize(
    "exchange",
    [
        {"verb": "watch"},
        {"verb": "create", "fault": "Stall"},
        {"verb": "update", "resource": "leases", "group": "coordination.k8s.io"},
        {"verb": "get", "resource": "leases", "group": "coordination.k8s.io"},
    ],
    ids=["a watch", "a stalled request", "a Lease write", "a Lease read"],
)
async def test_trace_is_quiet_despite_exchanges_that_cannot_cause_writes(exchange):
    trace = Trace(changes_state)
    enter(trace, **exchange)
    await trace.quiet(SOON, changes_state, within=30.0)


async def test_quiet_timeout_shows_pending_requests():
    trace = Trace(changes_state)
    enter(trace, "create")
    with pytest.raises(AssertionError, match=r"never quiet for 0.02 s within 0.1 s; seen:\n.*create pods"):
        await trace.quiet(SOON, matching("create"), within=0.1)
