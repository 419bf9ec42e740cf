"""`runtime.watch` on a real API server behind the fault proxy."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator

import msgspec
import pytest

from kit.clock import FastClock
from kit.cluster.client import a_config_map, connect
from kit.eventually import eventually
from kit.faults.proxy import Answer, CutMidLine, FaultProxy, GoneEvent, Refuse, Request, Stall, matching
from kit.kinds.widgets import CONFIG_MAPS, WIDGETS, Widget, a_widget, widget_operator
from quintet.apis.meta import Object, ObjectKey
from quintet.clock import Clock, SystemClock
from quintet.kube.client import Client
from quintet.runtime.cache import Store
from quintet.runtime.watch import Selection, Watch, WatchTimeouts

PATIENT = WatchTimeouts(first_retry=0.05, last_retry=0.5)
IMPATIENT = WatchTimeouts(stall=1.5, first_retry=0.05, last_retry=0.5)
"""Takes a watch on which nothing happens for dead, and opens another."""


class Watched:
    """A store that a watch keeps up to date, and all of its notifications."""

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
async def run_watch(
    client: Client,
    namespace: str,
    timeouts: WatchTimeouts = PATIENT,
    clock: Clock | None = None,
    **selection: str,
) -> AsyncIterator[Watched]:
    store: Store[Object] = Store()
    decode = msgspec.json.Decoder(Object).decode
    chosen = Selection(CONFIG_MAPS, decode, namespace, **selection)
    watch = Watch(client, chosen, store, clock or SystemClock(), timeouts)
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
    async with connect(proxy.write_kubeconfig(tmp_path)) as client:
        yield client


async def create_configmaps(client: Client, namespace: str, *names: str) -> None:
    for name in names:
        await client.create(CONFIG_MAPS, a_config_map(name), Object, namespace=namespace)


async def test_one_request_lists_and_watches(client, through_proxy, proxy, namespace):
    await create_configmaps(client, namespace, "a", "b")
    async with run_watch(through_proxy, namespace, labels="!theirs") as watched:
        await watched.shows("a", "b")
        await create_configmaps(client, namespace, "c")
        await watched.shows("a", "b", "c")
    requests = proxy.trace.requests()
    assert [exchange.request.verb for exchange in requests] == ["watch"], f"\n{proxy.trace}"
    assert {"added a initially", "added b initially", "added c"} <= set(watched.changes)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Answer(422, "Invalid"), id="the feature is off"),
        pytest.param(Answer(400, "BadRequest"), id="the parameter is unknown"),
        pytest.param(Answer(500, "InternalError"), id="etcd does not support it"),
    ],
)
async def test_server_without_watch_list_is_listed_in_pages(client, through_proxy, proxy, namespace, refusal):
    proxy.inject(refusal, when=lambda request: "sendInitialEvents" in request.query, times=None)
    await create_configmaps(client, namespace, "a", "b")
    async with run_watch(through_proxy, namespace) as watched:
        await watched.shows("a", "b")
        await create_configmaps(client, namespace, "c")
        await watched.shows("a", "b", "c")
    assert proxy.trace.requests(matching("list", "configmaps")), f"\n{proxy.trace}"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(), id="the connection is reset"),
        pytest.param(CutMidLine(), id="the connection is cut in the middle of a line"),
        pytest.param(Stall(), id="the connection stalls"),
        pytest.param(GoneEvent(), id="the version is too old"),
    ],
)
async def test_no_change_is_missed_when_connection_fails(client, through_proxy, proxy, namespace, fault):
    await create_configmaps(client, namespace, "stays", "goes", "changes")
    timeouts = IMPATIENT if isinstance(fault, Stall) else PATIENT
    async with run_watch(through_proxy, namespace, timeouts) as watched:
        await watched.shows("stays", "goes", "changes")
        already = len(watched.changes)
        proxy.disturb(fault, matching("watch", "configmaps"))
        await client.delete(CONFIG_MAPS, ObjectKey(namespace, "goes"))
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "changes"), {"data": {"x": "y"}}, Object)
        await create_configmaps(client, namespace, "comes")
        await watched.shows("stays", "changes", "comes")
        if isinstance(fault, Stall):
            fault.release()
    new = sorted(change for change in watched.changes[already:] if "kube-root-ca" not in change)
    assert new == ["added comes", "changed changes", "removed goes"], "unchanged objects made work again"


async def test_broken_watch_resumes_without_new_list(client, through_proxy, proxy, namespace):
    await create_configmaps(client, namespace, "a")
    async with run_watch(through_proxy, namespace) as watched:
        await watched.shows("a")
        mark = proxy.trace.mark()
        proxy.disturb(Refuse(), matching("watch", "configmaps"))
        await create_configmaps(client, namespace, "b")
        await watched.shows("a", "b")
    again = proxy.trace.requests(since=mark)
    assert [exchange.request.verb for exchange in again] == ["watch"], f"\n{proxy.trace}"
    assert "sendInitialEvents" not in again[0].request.query
    assert int(again[0].request.query["resourceVersion"]) > 0


async def test_incomplete_list_does_not_count_as_synced(client, through_proxy, proxy, namespace):
    """Otherwise an object could be reconciled while the cache lacks our own last write."""
    await create_configmaps(client, namespace, "early", "late")
    # Excludes the ConfigMap that Kubernetes creates in every namespace at some time.
    async with run_watch(through_proxy, namespace, fields="metadata.name!=kube-root-ca.crt") as watched:
        before = watched.store.version
        held = proxy.hold("configmaps", name="late")
        proxy.inject(Answer(410, "Expired"), when=lambda request: "sendInitialEvents" not in request.query)
        proxy.disturb(Refuse(), matching("watch", "configmaps"))
        await client.patch(CONFIG_MAPS, ObjectKey(namespace, "late"), {"data": {"x": "y"}}, Object)
        changed = await client.patch(CONFIG_MAPS, ObjectKey(namespace, "early"), {"data": {"x": "y"}}, Object)

        def assert_incomplete() -> None:
            early = watched.store.get(ObjectKey(namespace, "early"))
            assert early is not None
            assert early.version == changed.version

        await eventually(assert_incomplete)
        assert watched.store.version == before, "a part of a list was taken for the whole"
        held.release()

        def assert_complete() -> None:
            assert watched.store.version >= changed.version

        await eventually(assert_complete)


async def test_bookmarks_advance_resume_version(client, through_proxy, proxy, namespace):
    # The server sends a bookmark two seconds before it ends a short watch.
    timeouts = WatchTimeouts(server_timeout=4.0, stall=60.0, first_retry=0.05)
    async with run_watch(through_proxy, namespace, timeouts, labels="mine=yes"):
        for number in range(5):
            await create_configmaps(client, namespace, f"other-{number}")
        last = (await client.get(CONFIG_MAPS, ObjectKey(namespace, "other-4"), Object)).version

        def past_it(request: Request) -> bool:
            return "sendInitialEvents" not in request.query and int(request.query["resourceVersion"]) >= last

        # A bookmark older than the last change leads to a watch that ends with another one.
        await proxy.wait_for(past_it, within=60)


async def test_watch_is_dead_only_after_long_silence(through_proxy, proxy, namespace):
    timeouts = WatchTimeouts(stall=1.0, first_retry=0.05, last_retry=0.1, dead=30.0)
    clock = FastClock()
    async with run_watch(through_proxy, namespace, timeouts, clock) as watched:

        def assert_alive() -> None:
            assert watched.watch.alive

        await eventually(assert_alive)
        async with proxy.outage() as outage:
            await outage.hit()
            assert watched.watch.alive, "not after the first refusal"

            def assert_dead() -> None:
                assert not watched.watch.alive

            with clock.running_fast():
                await eventually(assert_dead)
        await eventually(assert_alive)


class RecordedSleeps(SystemClock):
    """A clock whose sleeps return at once and are recorded."""

    def __init__(self) -> None:
        self.sleeps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await asyncio.sleep(0.001)


async def test_retries_during_outage_slow_down_to_a_few_seconds(through_proxy, proxy, namespace):
    clock = RecordedSleeps()
    async with run_watch(through_proxy, namespace, WatchTimeouts(), clock=clock), proxy.outage():

        def assert_enough() -> None:
            assert len(clock.sleeps) >= 10

        await eventually(assert_enough)
    for number, pause in enumerate(clock.sleeps[:10]):
        want = min(WatchTimeouts().unreachable_retry, 2**number)
        assert want / 2 <= pause <= want, clock.sleeps


async def test_object_that_cannot_be_decoded_is_reported_and_others_are_served(
    widgets: Client, cluster, namespace
):
    bad, good = ObjectKey(namespace, "bad"), ObjectKey(namespace, "good")
    await widgets.create(WIDGETS, a_widget("bad", replicas="three"), Object, namespace=namespace)
    async with widget_operator(cluster.kubeconfig, namespace=namespace):
        await widgets.create(WIDGETS, a_widget("good"), Object, namespace=namespace)

        async def assert_served(key: ObjectKey = good) -> None:
            assert (await widgets.get(WIDGETS, key, Widget)).status.message == "reconciled"

        await eventually(assert_served)

        async def assert_reported() -> None:
            text = cluster.kubectl("describe", "widget", "bad", "-n", namespace).stdout
            assert "DecodeFailed" in text, text
            assert "Expected `int`, got `str` - at `$.spec.replicas`" in text, text

        await eventually(assert_reported)
        await widgets.patch(WIDGETS, bad, {"spec": {"replicas": 3}}, Object)
        await eventually(lambda: assert_served(bad))


@pytest.mark.parametrize("stored", ["before the operator starts", "while the operator runs"])
async def test_operator_serves_other_objects_when_one_is_nested_too_deeply(
    stored: str, widgets: Client, cluster, namespace
):
    """A user can store JSON of any depth where a schema preserves unknown fields; the decoder has a limit."""
    shallow = msgspec.json.encode(a_widget("deep", extra="HERE")).decode()
    manifest = shallow.replace('"HERE"', '{"a":' * 2000 + "1" + "}" * 2000)

    def create_deep_widget() -> None:
        created = cluster.kubectl("create", "-n", namespace, "-f", "-", "-o", "name", input=manifest)
        assert created.returncode == 0, created.stderr

    try:
        if stored.startswith("before"):
            create_deep_widget()
        async with widget_operator(cluster.kubeconfig, namespace=namespace):
            if stored.startswith("while"):
                create_deep_widget()
            await widgets.create(WIDGETS, a_widget("good"), Object, namespace=namespace)

            async def good_is_reconciled() -> None:
                widget = await widgets.get(WIDGETS, ObjectKey(namespace, "good"), Widget)
                assert widget.status.observed_generation == 1, widget

            async def deep_has_an_event() -> None:
                events = cluster.kubectl("events", "--for", "widget/deep", "-n", namespace).stdout
                assert "DecodeFailed" in events, events
                assert "nested" in events, events

            await eventually(good_is_reconciled)
            await eventually(deep_has_an_event)
    finally:
        # The clean-up of the kit lists widgets with a decoder that has the same limit.
        cluster.kubectl("delete", "widget", "deep", "-n", namespace)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.exhaustive)])
async def test_cached_object_uses_less_than_1500_bytes(count, client, namespace, cluster):
    """The memory of the cache alone, after a list and a watch."""
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
        # Excludes one-time imports and the connection's buffers.
        async with connect(cluster.kubeconfig) as own, run_watch(own, f"{namespace}-none"):
            pass
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        async with connect(cluster.kubeconfig) as own, run_watch(own, namespace) as watched:
            assert len(watched.store) >= count
            await create_configmaps(client, namespace, "one-more")

            def assert_seen() -> None:
                assert "one-more" in watched.names()

            await eventually(assert_seen)
        gc.collect()
        each = (tracemalloc.get_traced_memory()[0] - before) / count
    finally:
        tracemalloc.stop()
    assert each < 1536, f"{each:.0f} bytes each"
