"""Only the leader writes, also when processes are frozen, killed or stopped."""

import asyncio
import signal

import pytest

from kit.eventually import eventually
from kit.faults.operators import an_operator
from kit.faults.proxy import Delay, Exchange, FaultProxy, KillAfterCommit, matching
from kit.kinds.widgets import WIDGETS, Widget, a_widget
from kit.process import Program
from quintet.apis.meta import Object, ObjectKey
from quintet.kube.client import Client
from quintet.runtime.leader import LEASES, Lease

SHORT = ("--terms", "3", "2", "0.4")
"""The same ratio as the real 15/10/2 seconds, and the same code: for leases that are to run out."""
LONG = ("--terms", "60", "40", "1")
"""For leases that are not, however long a busy machine stands still. A lease given back is taken within a second."""
LONGEST = 4.0


def arguments(namespace: str, terms: tuple[str, ...] = SHORT) -> tuple[str, ...]:
    return ("--namespace", namespace, "--lease", "widgets", *terms)


async def wait_for_holder(client: Client, namespace: str) -> str:
    async def probe() -> str:
        lease = await client.get(LEASES, ObjectKey(namespace, "widgets"), Lease)
        assert lease.spec.holder_identity
        return lease.spec.holder_identity

    return await eventually(probe, within=120)


async def wait_until_reconciled(client: Client, namespace: str, name: str, text: str = "") -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, ObjectKey(namespace, name), Widget)
        assert widget.status.message == "reconciled", widget.status
        assert widget.status.observed_generation == widget.metadata.generation

    await eventually(probe, within=120)


def writes_except_lease(proxy: FaultProxy, since: int) -> list[Exchange]:
    """Return the writes of an operator except those to its Lease."""
    return [e for e in proxy.trace.exchanges[since:] if e.request.mutating and e.request.resource != "leases"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "attempt", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 5))]
)
async def test_leader_frozen_past_its_lease_writes_nothing_after_resuming(
    widgets: Client, cluster, namespace, tmp_path, attempt
):
    async with (
        FaultProxy(cluster.kubeconfig) as first_proxy,
        FaultProxy(cluster.kubeconfig) as second_proxy,
        an_operator(first_proxy.write_kubeconfig(tmp_path), *arguments(namespace)) as first,
    ):
        old = await wait_for_holder(widgets, namespace)
        # The new leader must stay: otherwise the old one could lead again and write.
        async with an_operator(second_proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)):
            await widgets.create(WIDGETS, a_widget("w", text="0"), Object, namespace=namespace)
            await wait_until_reconciled(widgets, namespace, "w")
            # Freeze it under full load.
            for number in range(30):
                body = a_widget(f"busy-{number}", text="x")
                await widgets.create(WIDGETS, body, Object, namespace=namespace)
            first.signal(signal.SIGSTOP)
            mark = first_proxy.trace.mark()

            async def assert_taken_over() -> None:
                assert await wait_for_holder(widgets, namespace) != old

            await eventually(assert_taken_over, within=120)
            # The new leader reverts nothing and misses nothing ...
            await widgets.patch(WIDGETS, ObjectKey(namespace, "w"), {"spec": {"text": "1"}}, Object)
            for number in range(30):
                await wait_until_reconciled(widgets, namespace, f"busy-{number}")
            await wait_until_reconciled(widgets, namespace, "w")
            before_waking = writes_except_lease(first_proxy, mark)
            first.signal(signal.SIGCONT)
            # ... and the old one notices that it lost its leadership.
            await eventually(lambda: _assert_lost_leadership(first.log), within=120)
            await first_proxy.quiet(1.0)
            late = writes_except_lease(first_proxy, mark)[len(before_waking) :]
            assert late == [], "\n".join(map(str, late))
            assert await wait_for_holder(widgets, namespace) != old


def _assert_lost_leadership(log: list[str]) -> None:
    assert any("Leadership lost" in line for line in log), "\n".join(log)


async def test_leader_releases_lease_at_once_on_sigterm(widgets: Client, cluster, namespace, tmp_path):
    async with an_operator(cluster.kubeconfig, *arguments(namespace, LONG)) as first:
        old = await wait_for_holder(widgets, namespace)
        async with FaultProxy(cluster.kubeconfig) as proxy:
            kubeconfig = proxy.write_kubeconfig(tmp_path)
            async with an_operator(kubeconfig, *arguments(namespace, LONG)):
                await proxy.wait_for(matching("get", "leases"))
                standby_requests = {e.request.verb for e in proxy.trace.requests()}
                assert standby_requests <= {"watch", "get"}, "a standby keeps warm and writes nothing"
                mark = proxy.trace.mark()
                first.signal(signal.SIGTERM)
                assert await first.ended() == 0, "\n".join(first.log)
                lease = await widgets.get(LEASES, ObjectKey(namespace, "widgets"), Lease)
                assert lease.spec.holder_identity != old, "the lease was not released"
                await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
                await wait_until_reconciled(widgets, namespace, "w")
                lists = [e for e in proxy.trace.requests(since=mark) if e.request.verb in ("list", "watch")]
                assert lists == [], f"taking over cost a list\n{proxy.trace}"


async def test_leader_releases_lease_when_stopped_during_renewal(
    widgets: Client, cluster, namespace, tmp_path
):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as operator,
    ):
        old = await wait_for_holder(widgets, namespace)
        asked = KillAfterCommit(lambda: operator.signal(signal.SIGTERM))
        proxy.inject(asked, when=matching("update", "leases"))
        assert await operator.ended() == 0, "\n".join(operator.log)
        lease = await widgets.get(LEASES, ObjectKey(namespace, "widgets"), Lease)
        assert lease.spec.holder_identity != old, "\n".join(operator.log)


def find_leader(identity: str, *operators: Program) -> Program:
    """Return the operator whose log reports leadership with this identity."""
    found = [each for each in operators if any("Leading" in line and identity in line for line in each.log)]
    assert found, [each.log for each in operators]
    return found[0]


async def test_standby_takes_over_when_lease_of_killed_leader_expires(widgets: Client, cluster, namespace):
    async with (
        an_operator(cluster.kubeconfig, *arguments(namespace)) as first,
        an_operator(cluster.kubeconfig, *arguments(namespace)) as second,
    ):
        old = await wait_for_holder(widgets, namespace)
        leader = await eventually(lambda: find_leader(old, first, second))
        leader.kill()
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await wait_until_reconciled(widgets, namespace, "w")
        assert await wait_for_holder(widgets, namespace) != old


async def test_only_leader_writes_when_several_replicas_run(widgets: Client, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as a,
        FaultProxy(cluster.kubeconfig) as b,
        an_operator(a.write_kubeconfig(tmp_path), *arguments(namespace, LONG)),
        an_operator(b.write_kubeconfig(tmp_path), *arguments(namespace, LONG)),
    ):
        for number in range(10):
            await widgets.create(WIDGETS, a_widget(f"w{number}"), Object, namespace=namespace)
        for number in range(10):
            await wait_until_reconciled(widgets, namespace, f"w{number}")
        counts = sorted(len(writes_except_lease(proxy, 0)) for proxy in (a, b))
        assert counts == [0, 40], f"\n{a.trace}\n{b.trace}"


async def test_leader_acquires_lease_again_after_lease_is_deleted(widgets: Client, cluster, namespace):
    async with an_operator(cluster.kubeconfig, *arguments(namespace)):
        await wait_for_holder(widgets, namespace)
        await widgets.delete(LEASES, ObjectKey(namespace, "widgets"))
        await wait_for_holder(widgets, namespace)
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await wait_until_reconciled(widgets, namespace, "w")


async def test_leader_disconnected_from_api_server_stops_and_recovers(widgets, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace)) as operator,
    ):
        await wait_for_holder(widgets, namespace)
        async with proxy.outage():
            await eventually(lambda: _assert_lost_leadership(operator.log), within=120)
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await wait_until_reconciled(widgets, namespace, "w")


async def test_shutdown_waits_for_write_in_progress(widgets: Client, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as operator,
    ):
        await wait_for_holder(widgets, namespace)
        slow = proxy.inject(Delay(1.0), when=matching("create", "services"))
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await slow.hit()
        operator.signal(signal.SIGTERM)
        assert await asyncio.wait_for(operator.ended(), 60) == 0, "\n".join(operator.log)
        await wait_until_reconciled(widgets, namespace, "w")


async def test_standby_stops_at_once_on_sigterm(widgets: Client, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(cluster.kubeconfig, *arguments(namespace, LONG)),
    ):
        await wait_for_holder(widgets, namespace)
        async with an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as standby:
            loop, took = asyncio.get_running_loop(), []
            # Less than the grace period for work in progress; a busy machine may need another try.
            while len(took) < 5 and min(took, default=LONGEST) >= LONGEST:
                mark = proxy.trace.mark()
                if took:
                    await standby.start()
                await proxy.wait_for(matching("get", "leases"), since=mark if took else 0)
                asked = loop.time()
                standby.signal(signal.SIGTERM)
                assert await standby.ended() == 0, "\n".join(standby.log)
                took.append(loop.time() - asked)
            assert min(took) < LONGEST, took
