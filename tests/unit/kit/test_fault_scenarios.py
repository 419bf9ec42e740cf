"""The writes at which a scenario is hit, and the diagnostics of a failure."""

import asyncio
from pathlib import Path

import pytest

from kit.faults.proxy import DropReply, FaultProxy, Trace, changes_state
from kit.faults.proxy.requests import Request
from kit.faults.scenarios import (
    AT_ONCE,
    RESPONSE_LOST,
    first_of_its_type,
    inject_at_write,
    run_concurrently,
    run_until_hit,
)
from kit.process import Program


def a_request(verb: str, resource: str = "pods", subresource: str = "") -> Request:
    return Request(verb=verb, resource=resource, subresource=subresource, query={})


async def test_first_of_its_type_matches_each_verb_resource_and_subresource_once():
    trace = Trace(changes_state)
    match = first_of_its_type(trace)
    matched = []
    for text in ("create pods", "get pods", "create pods", "create jobs", "patch pods", "patch pods status"):
        request = a_request(*text.split())
        trace.enter(request, user_agent="", body=None)
        if match(request):
            matched.append(text)
    assert matched == ["create pods", "create jobs", "patch pods", "patch pods status"]


def send_requests(proxy: FaultProxy, *verbs: str) -> None:
    """Pass each request through the injections as the proxy does."""
    for verb in verbs:
        exchange = proxy.trace.enter(a_request(verb), user_agent="", body=None)
        for injection in proxy._injections:
            if injection.takes(exchange):
                injection.strike(exchange)


async def test_failed_scenario_shows_fault_requests_and_operator_log():
    proxy, operator = FaultProxy(Path("unused")), Program("unused")
    operator.log += [f"line {number}" for number in range(100)]

    async def fail() -> None:
        async with inject_at_write(RESPONSE_LOST, proxy, operator, at_write=2):
            send_requests(proxy, "create", "patch")
            raise AssertionError("not as desired")

    with pytest.raises(AssertionError, match="not as desired") as failure:
        await fail()
    (note,) = failure.value.__notes__
    assert "response lost, write 2" in note
    assert "w2 patch pods" in note
    assert "line 99" in note
    assert "line 10\n" not in note


@pytest.mark.parametrize(
    ("at_write", "verbs", "want_hits"),
    [(None, ["create", "patch", "create"], 2), (2, ["create", "patch"], 1), (3, ["create", "patch"], 0)],
    ids=["first of each type", "one write", "a write that the scenario did not have"],
)
async def test_hit_by_injects_fault_at_chosen_writes(at_write, verbs, want_hits):
    proxy = FaultProxy(Path("unused"))
    async with inject_at_write(DropReply(), proxy, at_write=at_write) as injection:
        send_requests(proxy, *verbs)
    assert len(injection.hits) == want_hits


async def test_scenario_without_any_write_fails():
    with pytest.raises(AssertionError, match="none was hit"):
        async with inject_at_write(DropReply(), FaultProxy(Path("unused")), at_write=None):
            pass


async def test_until_hit_cancels_scenario_at_fault_and_raises_earlier_error():
    proxy, ends = FaultProxy(Path("unused")), []

    async def story() -> None:
        try:
            send_requests(proxy, "create")
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    await run_until_hit(proxy.inject(DropReply(), at_write=1), story())
    assert ends == ["cancelled"]

    async def broken() -> None:
        raise ValueError("before the fault")

    with pytest.raises(ValueError, match="before the fault"):
        await run_until_hit(proxy.inject(DropReply(), at_write=9), broken())


async def test_side_by_side_limits_concurrent_scenarios():
    now, most, told = 0, 0, []

    async def story(number: int) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        told.append(number)

    await run_concurrently(range(3 * AT_ONCE), story)
    assert sorted(told) == list(range(3 * AT_ONCE))
    assert most == AT_ONCE
