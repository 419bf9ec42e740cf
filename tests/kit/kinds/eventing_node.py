"""A simulated node that runs the publisher proxies and dispatchers of EventingBackends as processes.

The API server, the controllers, the NATS server and both data-plane programs are real; only containers and Services
are missing. A process that ends is started again, as a kubelet does.
"""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import msgspec

from kit.cluster.api import Api, JsonObject
from kit.cluster.simulated_node import SimulatedNode
from kit.http.raw import RawClient
from kit.nats.dispatchers import DispatcherProcess
from kit.nats.publishers import Publisher
from quintet.eventing.settings import VARIABLE, DispatcherSettings, PublisherSettings

POLL = 0.1
GRACE = 20.0
"""How long a process may take after SIGTERM before it is killed."""
_UNREACHABLE = (OSError, asyncio.IncompleteReadError, TimeoutError)


class _Pod:
    """A pod with its process."""

    def __init__(self, process: Publisher | DispatcherProcess, watcher: "asyncio.Task[None]") -> None:
        self.process = process
        self.watcher = watcher
        self.ready = False
        self.deleting = False


class EventingNode(SimulatedNode):
    """Runs the eventing pods of one namespace."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        kubeconfig: Path,
        sinks: Mapping[str, tuple[str, int]],
        leave: float = 0.3,
    ) -> None:
        super().__init__(api, namespace=namespace, health=self._health)
        self._kubeconfig = kubeconfig
        self._sinks = sinks
        self._leave = leave
        self._pods: dict[str, _Pod] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["EventingNode"]:
        try:
            async with super().running():
                yield self
        finally:
            for pod in self._pods.values():
                pod.watcher.cancel()
                pod.process.program.kill()
                await pod.process.program.ended()

    @property
    def publisher_ports(self) -> list[int]:
        """Return the ports of the publisher proxies that a Service would send requests to."""
        return [
            pod.process.port
            for pod in self._pods.values()
            if pod.ready and not pod.deleting and isinstance(pod.process, Publisher)
        ]

    def processes(
        self, kind: type[Publisher] | type[DispatcherProcess]
    ) -> list[Publisher | DispatcherProcess]:
        """Return the processes of one kind, also those that shut down."""
        return [pod.process for pod in self._pods.values() if isinstance(pod.process, kind)]

    def _health(self, pod: JsonObject) -> str:
        known = self._pods.get(pod["metadata"]["uid"])
        return "Ready" if known is not None and known.ready else "Running"

    async def _write_next_state(self, key: tuple[str, str], pod: JsonObject) -> None:
        uid = pod["metadata"]["uid"]
        known = self._pods.get(uid)
        if pod["metadata"].get("deletionTimestamp"):
            if known is not None:
                await self._end(known)
                self._pods.pop(uid, None)
        elif known is None:
            process = self._process(pod)
            watcher = asyncio.create_task(self._watch(uid, key, process))
            self._pods[uid] = _Pod(process, watcher)
        await super()._write_next_state(key, pod)  # type: ignore[arg-type]

    def _process(self, pod: JsonObject) -> Publisher | DispatcherProcess:
        (container,) = pod["spec"]["containers"]
        settings = next(each["value"] for each in container["env"] if each["name"] == VARIABLE)
        settings = settings.replace("$$", "$")
        if container["args"] == ["dispatcher"]:
            decoded = msgspec.json.decode(settings, type=DispatcherSettings)
            return DispatcherProcess(decoded, self._kubeconfig, self._sinks)
        return Publisher(msgspec.json.decode(settings, type=PublisherSettings), leave=self._leave)

    async def _watch(self, uid: str, key: tuple[str, str], process: Publisher | DispatcherProcess) -> None:
        """Start the process whenever it does not run, and follow its readiness."""
        while True:
            pod = self._pods.get(uid)
            if pod is None or pod.deleting:
                return
            if not process.program.running:
                await process.program.start()
            ready = await _is_ready(process)
            if ready != pod.ready:
                pod.ready = ready
                self._enqueue(key)  # type: ignore[arg-type]
            await asyncio.sleep(POLL)

    async def _end(self, pod: _Pod) -> None:
        pod.deleting = True
        pod.watcher.cancel()
        await asyncio.gather(pod.watcher, return_exceptions=True)
        pod.process.program.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(pod.process.program.ended(), GRACE)
        except TimeoutError:
            pod.process.program.kill()
            await pod.process.program.ended()


async def _is_ready(process: Publisher | DispatcherProcess) -> bool:
    try:
        client = RawClient(*await asyncio.open_connection("127.0.0.1", process.port))
        try:
            answer = await client.ask(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        finally:
            client.close()
    except _UNREACHABLE:
        return False
    return answer.status == 200
