"""Processes in the network namespace and cgroup of the first node, which end with the node."""

import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from quintet.local.cluster import Cluster

# $0 takes the pid into the node's cgroup; exec keeps the pid.
_JOIN_AND_BECOME = 'echo $$ >"$0" && exec "$@"'


class NodeProcess:
    """A process in the network of a node and the last lines of its output."""

    def __init__(
        self,
        cluster: Cluster,
        *argv: str,
        environment: Mapping[str, str] | None = None,
        lines: int | None = 5000,
    ) -> None:
        node = cluster.list_nodes()[0]
        network = f"/proc/{node.process('namespace').pid}/ns/net"
        self.said: deque[str] = deque(maxlen=lines)
        self._process = subprocess.Popen(
            ["sh", "-c", _JOIN_AND_BECOME, str(node.cgroup.system / "cgroup.procs"),
             "nsenter", f"--net={network}", "--", *argv],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )  # fmt: skip
        # A thread, because a blocked test would leave the pipe full and this process stuck.
        self._reader = Thread(target=self.said.extend, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def last(self, count: int = 30) -> str:
        """Return the last lines of the output."""
        return "".join(list(self.said.copy())[-count:])

    def stop(self, grace: float = 5.0) -> None:
        """Stop the process and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


# Runs in the node's network; a new connection per request, so that every interruption is visible.
_ASK = """
import http.client, sys, time
host, port, path = sys.argv[1:]
while True:
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        said = str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        said = repr(error)
    finally:
        connection.close()
    print(said, flush=True)
    time.sleep(0.05)
"""


class ResponseCounts:
    """The results of all requests so far."""

    def __init__(self, client: NodeProcess) -> None:
        self._client = client

    @property
    def answers(self) -> Counter[str]:
        """Return how often each status or error occurred."""
        return Counter(line.strip() for line in self._client.said.copy())


@contextmanager
def send_requests(cluster: Cluster, address: str, port: int, path: str) -> Iterator[ResponseCounts]:
    """Send requests to an address in the cluster continuously while inside."""
    client = NodeProcess(cluster, sys.executable, "-c", _ASK, address, str(port), path, lines=None)
    try:
        yield ResponseCounts(client)
        assert client.alive, client.last()
    finally:
        client.stop()
