"""Only the leader writes: shown with processes that are frozen, killed and asked to stop."""

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


async def holder(client: Client, namespace: str) -> str:
    async def probe() -> str:
        lease = await client.get(LEASES, ObjectKey(namespace, "widgets"), Lease)
        assert lease.spec.holder_identity
        return lease.spec.holder_identity

    return await eventually(probe, within=120)


async def reconciled(client: Client, namespace: str, name: str, text: str = "") -> None:
    async def probe() -> None:
        widget = await client.get(WIDGETS, ObjectKey(namespace, name), Widget)
        assert widget.status.message == "as wanted", widget.status
        assert widget.status.observed_generation == widget.metadata.generation

    await eventually(probe, within=120)


def own_writes(proxy: FaultProxy, since: int) -> list[Exchange]:
    """Everything but the Lease itself."""
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
        old = await holder(widgets, namespace)
        # Whoever takes over stays: the old one may not come back and write because the new one stood still.
        async with an_operator(second_proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)):
            await widgets.create(WIDGETS, a_widget("w", text="0"), Object, namespace=namespace)
            await reconciled(widgets, namespace, "w")
            # Freeze it in the middle of as much work as it can get.
            for number in range(30):
                body = a_widget(f"busy-{number}", text="x")
                await widgets.create(WIDGETS, body, Object, namespace=namespace)
            first.signal(signal.SIGSTOP)
            mark = first_proxy.trace.mark()

            async def taken_over() -> None:
                assert await holder(widgets, namespace) != old

            await eventually(taken_over, within=120)
            # The new leader undoes nothing and misses nothing ...
            await widgets.patch(WIDGETS, ObjectKey(namespace, "w"), {"spec": {"text": "1"}}, Object)
            for number in range(30):
                await reconciled(widgets, namespace, f"busy-{number}")
            await reconciled(widgets, namespace, "w")
            before_waking = own_writes(first_proxy, mark)
            first.signal(signal.SIGCONT)
            # ... and the old one notices that it is no longer needed.
            await eventually(lambda: _lost(first.log), within=120)
            await first_proxy.quiet(1.0)
            late = own_writes(first_proxy, mark)[len(before_waking) :]
            assert late == [], "\n".join(map(str, late))
            assert await holder(widgets, namespace) != old


def _lost(log: list[str]) -> None:
    assert any("Leadership lost" in line for line in log), "\n".join(log)


async def test_leader_releases_lease_at_once_on_sigterm(
    widgets: Client, cluster, namespace, tmp_path
):
    async with an_operator(cluster.kubeconfig, *arguments(namespace, LONG)) as first:
        old = await holder(widgets, namespace)
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
                await reconciled(widgets, namespace, "w")
                lists = [e for e in proxy.trace.requests(since=mark) if e.request.verb in ("list", "watch")]
                assert lists == [], f"taking over cost a list\n{proxy.trace}"


async def test_leader_releases_lease_when_stopped_during_renewal(
    widgets: Client, cluster, namespace, tmp_path
):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as operator,
    ):
        old = await holder(widgets, namespace)
        asked = KillAfterCommit(lambda: operator.signal(signal.SIGTERM))
        proxy.inject(asked, when=matching("update", "leases"))
        assert await operator.ended() == 0, "\n".join(operator.log)
        lease = await widgets.get(LEASES, ObjectKey(namespace, "widgets"), Lease)
        assert lease.spec.holder_identity != old, "\n".join(operator.log)


def leading(identity: str, *operators: Program) -> Program:
    """The one that says that it leads as this; the lease says so a moment earlier."""
    found = [each for each in operators if any("Leading" in line and identity in line for line in each.log)]
    assert found, [each.log for each in operators]
    return found[0]


async def test_standby_takes_over_when_lease_of_killed_leader_expires(widgets: Client, cluster, namespace):
    async with (
        an_operator(cluster.kubeconfig, *arguments(namespace)) as first,
        an_operator(cluster.kubeconfig, *arguments(namespace)) as second,
    ):
        old = await holder(widgets, namespace)
        leader = await eventually(lambda: leading(old, first, second))
        leader.kill()
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await reconciled(widgets, namespace, "w")
        assert await holder(widgets, namespace) != old


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
            await reconciled(widgets, namespace, f"w{number}")
        counts = sorted(len(own_writes(proxy, 0)) for proxy in (a, b))
        assert counts == [0, 40], f"\n{a.trace}\n{b.trace}"


async def test_leader_acquires_lease_again_after_lease_is_deleted(widgets: Client, cluster, namespace):
    async with an_operator(cluster.kubeconfig, *arguments(namespace)):
        await holder(widgets, namespace)
        await widgets.delete(LEASES, ObjectKey(namespace, "widgets"))
        await holder(widgets, namespace)
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await reconciled(widgets, namespace, "w")


async def test_leader_disconnected_from_api_server_stops_and_recovers(widgets, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace)) as operator,
    ):
        await holder(widgets, namespace)
        async with proxy.outage():
            await eventually(lambda: _lost(operator.log), within=120)
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await reconciled(widgets, namespace, "w")


async def test_shutdown_waits_for_write_in_progress(widgets: Client, cluster, namespace, tmp_path):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as operator,
    ):
        await holder(widgets, namespace)
        slow = proxy.inject(Delay(1.0), when=matching("create", "services"))
        await widgets.create(WIDGETS, a_widget("w"), Object, namespace=namespace)
        await slow.hit()
        operator.signal(signal.SIGTERM)
        assert await asyncio.wait_for(operator.ended(), 60) == 0, "\n".join(operator.log)
        await reconciled(widgets, namespace, "w")


async def test_standby_stops_at_once_on_sigterm(
    widgets: Client, cluster, namespace, tmp_path
):
    async with (
        FaultProxy(cluster.kubeconfig) as proxy,
        an_operator(cluster.kubeconfig, *arguments(namespace, LONG)),
    ):
        await holder(widgets, namespace)
        async with an_operator(proxy.write_kubeconfig(tmp_path), *arguments(namespace, LONG)) as standby:
            loop, took = asyncio.get_running_loop(), []
            # Less than the time that work in progress would be given; a busy machine may need another try.
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
