"""What `runtime.watch` promises, on the real API server, with the fault proxy in between."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator

import msgspec
import pytest

from kit.clock import FastClock
from kit.cluster.client import a_config_map, connected
from kit.eventually import eventually
from kit.faults.proxy import Answer, CutMidLine, FaultProxy, GoneEvent, Refuse, Request, Stall, matching
from kit.kinds.widgets import CONFIG_MAPS, WIDGETS, Widget, a_widget, widget_operator
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import Clock, SystemClock
from quintet.kube.client import Client
from quintet.runtime.cache import Store
from quintet.runtime.watch import Patience, Selection, Watch

PATIENT = Patience(first_retry=0.05, last_retry=0.5)
IMPATIENT = Patience(stall=1.5, first_retry=0.05, last_retry=0.5)
"""Takes a watch on which nothing happens for dead, and opens another."""


class Watched:
    """A store that a watch keeps up to date, and all the changes that it told of."""

    def __init__(self, store: Store[Object], watch: Watch[Object]) -> None:
        self.store = store
        self.watch = watch
        self.changes: list[str] = []
        store.subscribe(self._note)

    def _note(self, old: Object | None, new: Object | None, initial: bool) -> None:
        name = (new or old).key.name  # type: ignore[union-attr]
        kind = "added" if old is None else "removed" if new is None else "changed"
        self.changes.append(f"{kind} {name}" + (" initially" if initial else ""))

    def names(self) -> set[str]:
        return {obj.key.name for obj in self.store if obj.key.name != "kube-root-ca.crt"}

    async def shows(self, *names: str) -> None:
        def probe() -> None:
            assert self.names() == set(names)

        await eventually(probe)


@contextlib.asynccontextmanager
async def watching(
    client: Client,
    namespace: str,
    patience: Patience = PATIENT,
    clock: Clock | None = None,
    **selection: str,
) -> AsyncIterator[Watched]:
    store: Store[Object] = Store()
    decode = msgspec.json.Decoder(Object).decode
    chosen = Selection(CONFIG_MAPS, decode, namespace, **selection)
    watch = Watch(client, chosen, store, clock or SystemClock(), patience)
    watched = Watched(store, watch)
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(store.synced.wait(), 120)
        yield watched
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def through_proxy(proxy: FaultProxy, tmp_path) -> AsyncIterator[Client]:
    async with connected(proxy.write_kubeconfig(tmp_path)) as client:
        yield client


async def make(client: Client, namespace: str, *names: str) -> None:
    for name in names:
        await client.create(CONFIG_MAPS, a_config_map(name), Object, namespace=namespace)


async def test_one_request_lists_and_watches(client, through_proxy, proxy, namespace):
    await make(client, namespace, "a", "b")
    async with watching(through_proxy, namespace, labels="!theirs") as watched:
        await watched.shows("a", "b")
        await make(client, namespace, "c")
        await watched.shows("a", "b", "c")
    requests = proxy.trace.requests()
    assert [exchange.request.verb for exchange in requests] == ["watch"], f"\n{proxy.trace}"
    assert {"added a initially", "added b initially", "added c"} <= set(watched.changes)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Answer(422, "Invalid"), id="the feature is off"),
        pytest.param(Answer(400, "BadRequest"), id="the parameter is unknown"),
        pytest.param(Answer(500, "InternalError"), id="etcd is too old for it"),
    ],
)
async def test_server_without_watch_list_is_listed_in_pages(
    client, through_proxy, proxy, namespace, refusal
):
    proxy.inject(refusal, when=lambda request: "sendInitialEvents" in request.query, times=None)
    await make(client, namespace, "a", "b")
    async with watching(through_proxy, namespace) as watched:
        await watched.shows("a", "b")
        await make(client, namespace, "c")
        await watched.shows("a", "b", "c")
    assert proxy.trace.requests(matching("list", "configmaps")), f"\n{proxy.trace}"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(), id="the connection is reset"),
        pytest.param(CutMidLine(), id="the connection is cut in the middle of a line"),
        pytest.param(Stall(), id="the connection falls silent without a word"),
        pytest.param(GoneEvent(), id="the version is too old"),
    ],
)
async def test_no_change_is_missed_when_connection_fails(
    client, through_proxy, proxy, namespace, fault
):
    await make(client, namespace, "stays", "goes", "changes")
    patience = IMPATIENT if isinstance(fault, Stall) else PATIENT
    async with watching(through_proxy, namespace, patience) as watched:
        await watched.shows("stays", "goes", "changes")
        already = len(watched.changes)
        proxy.disturb(fault, matching("watch", "configmaps"))
        await client.delete(CONFIG_MAPS, ObjectKey(namespace, "goes"))
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "changes"), {"data": {"x": "y"}}, Object)
        await make(client, namespace, "comes")
        await watched.shows("stays", "changes", "comes")
        if isinstance(fault, Stall):
            fault.release()
    new = sorted(change for change in watched.changes[already:] if "kube-root-ca" not in change)
    assert new == ["added comes", "changed changes", "removed goes"], "unchanged objects made work again"


async def test_broken_watch_resumes_without_new_list(client, through_proxy, proxy, namespace):
    await make(client, namespace, "a")
    async with watching(through_proxy, namespace) as watched:
        await watched.shows("a")
        mark = proxy.trace.mark()
        proxy.disturb(Refuse(), matching("watch", "configmaps"))
        await make(client, namespace, "b")
        await watched.shows("a", "b")
    again = proxy.trace.requests(since=mark)
    assert [exchange.request.verb for exchange in again] == ["watch"], f"\n{proxy.trace}"
    assert "sendInitialEvents" not in again[0].request.query
    assert int(again[0].request.query["resourceVersion"]) > 0


async def test_incomplete_list_does_not_count_as_synced(client, through_proxy, proxy, namespace):
    """Otherwise a key would be decided on although the cache still lacks our own last write for it."""
    await make(client, namespace, "early", "late")
    # What Kubernetes puts into every namespace, at a time of its own, would be seen as well.
    async with watching(through_proxy, namespace, fields="metadata.name!=kube-root-ca.crt") as watched:
        before = watched.store.version
        held = proxy.hold("configmaps", name="late")
        proxy.inject(Answer(410, "Expired"), when=lambda request: "sendInitialEvents" not in request.query)
        proxy.disturb(Refuse(), matching("watch", "configmaps"))
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "late"), {"data": {"x": "y"}}, Object)
        changed = await client.patch(CONFIG_MAPS, ObjectKey(namespace, "early"), {"data": {"x": "y"}}, Object)

        def half() -> None:
            early = watched.store.get(ObjectKey(namespace, "early"))
            assert early is not None
            assert early.version == changed.version

        await eventually(half)
        assert watched.store.version == before, "a part of a list was taken for the whole"
        held.release()

        def whole() -> None:
            assert watched.store.version >= changed.version

        await eventually(whole)


async def test_bookmarks_advance_resume_version(
    client, through_proxy, proxy, namespace
):
    # The server ends a watch of a few seconds with a bookmark two seconds before.
    patience = Patience(server_timeout=4.0, stall=60.0, first_retry=0.05)
    async with watching(through_proxy, namespace, patience, labels="mine=yes"):
        for number in range(5):
            await make(client, namespace, f"other-{number}")
        last = (await client.get(CONFIG_MAPS, ObjectKey(namespace, "other-4"), Object)).version

        def past_it(request: Request) -> bool:
            return "sendInitialEvents" not in request.query and int(request.query["resourceVersion"]) >= last

        # A bookmark from before the last of them leads to a watch that ends with another one.
        await proxy.wait_for(past_it, within=60)


async def test_watch_is_dead_only_after_long_silence(through_proxy, proxy, namespace):
    patience = Patience(stall=1.0, first_retry=0.05, last_retry=0.1, dead=30.0)
    clock = FastClock()
    async with watching(through_proxy, namespace, patience, clock) as watched:

        def alive() -> None:
            assert watched.watch.alive

        await eventually(alive)
        async with proxy.outage() as outage:
            await outage.hit()
            assert watched.watch.alive, "not after the first refusal"

            def dead() -> None:
                assert not watched.watch.alive

            with clock.running_fast():
                await eventually(dead)
        await eventually(alive)


class NotedSleeps(SystemClock):
    """Real time, except that nobody waits: what was asked for is written down."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await asyncio.sleep(0.001)


async def test_retries_during_outage_slow_down_to_a_few_seconds(
    through_proxy, proxy, namespace
):
    clock = NotedSleeps()
    async with watching(through_proxy, namespace, Patience(), clock=clock), proxy.outage():

        def enough() -> None:
            assert len(clock.sleeps) >= 10

        await eventually(enough)
    for number, pause in enumerate(clock.sleeps[:10]):
        want = min(Patience().unreachable_retry, 2**number)
        assert want / 2 <= pause <= want, clock.sleeps


async def test_object_that_cannot_be_decoded_is_reported_and_others_are_served(
    widgets: Client, cluster, namespace
):
    bad, good = ObjectKey(namespace, "bad"), ObjectKey(namespace, "good")
    await widgets.create(WIDGETS, a_widget("bad", replicas="three"), Object, namespace=namespace)
    async with widget_operator(cluster.kubeconfig, namespace=namespace):
        await widgets.create(WIDGETS, a_widget("good"), Object, namespace=namespace)

        async def served(key: ObjectKey = good) -> None:
            assert (await widgets.get(WIDGETS, key, Widget)).status.message == "as wanted"

        await eventually(served)

        async def told() -> None:
            text = cluster.kubectl("describe", "widget", "bad", "-n", namespace).stdout
            assert "DecodeFailed" in text, text
            assert "Expected `int`, got `str` - at `$.spec.replicas`" in text, text

        await eventually(told)
        await widgets.patch(WIDGETS, bad, {"spec": {"replicas": 3}}, Object)
        await eventually(lambda: served(bad))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.exhaustive)])
async def test_cached_object_uses_less_than_1500_bytes(count, client, namespace, cluster):
    """Listed, then watched: the memory of the cache alone, counted by the allocator."""
    gate = asyncio.Semaphore(16)

    async def make_one(number: int) -> None:
        async with gate:
            body = a_config_map(f"item-{number}", text="x" * 1000)
            body["metadata"]["labels"] = {"app": f"item-{number}", "app.kubernetes.io/managed-by": "quintet"}
            await client.create(CONFIG_MAPS, body, Object, namespace=namespace)

    await asyncio.gather(*(make_one(number) for number in range(count)))
    gc.collect()
    tracemalloc.start()
    try:
        # What is loaded only once is not counted, nor is the connection with its buffers.
        async with connected(cluster.kubeconfig) as own, watching(own, f"{namespace}-none"):
            pass
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        async with connected(cluster.kubeconfig) as own, watching(own, namespace) as watched:
            assert len(watched.store) >= count
            await make(client, namespace, "one-more")

            def seen() -> None:
                assert "one-more" in watched.names()

            await eventually(seen)
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    assert each < 1536, f"{each:.0f} bytes each"
