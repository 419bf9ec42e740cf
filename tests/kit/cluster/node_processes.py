"""Programs that run beside a node: in its network, and gone with it whatever happens to us."""

import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from quintet.local.cluster import Cluster
from quintet.local.node.cgroups import cluster_cgroup

# $0 takes the pid into the cluster's cgroup; exec keeps the pid.
_JOIN_AND_BECOME = 'echo $$ >"$0" && exec "$@"'


class Beside:
    """A program in the network of a node, and the last lines of what it says."""

    def __init__(
        self,
        cluster: Cluster,
        *argv: str,
        environment: Mapping[str, str] | None = None,
        lines: int | None = 5000,
    ) -> None:
        group = cluster_cgroup(cluster.directory)
        network = f"/proc/{cluster.process('namespace').pid}/ns/net"
        self.said: deque[str] = deque(maxlen=lines)
        self._process = subprocess.Popen(
            ["sh", "-c", _JOIN_AND_BECOME, str(group.system / "cgroup.procs"),
             "nsenter", f"--net={network}", "--", *argv],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )  # fmt: skip
        # A thread, because a test that waits in another program would leave the pipe full and this one stuck.
        self._reader = Thread(target=self.said.extend, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def last(self, count: int = 30) -> str:
        """The end of what it said."""
        return "".join(list(self.said.copy())[-count:])

    def stop(self, grace: float = 5.0) -> None:
        """End this very process, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


# Runs in the network of the node: a connection for each question, so that a gap of any length shows.
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


class Questions:
    """What came back for each question, over the whole time."""

    def __init__(self, client: Beside) -> None:
        self._client = client

    @property
    def answers(self) -> Counter[str]:
        """Status, or what went wrong → how often."""
        return Counter(line.strip() for line in self._client.said.copy())


@contextmanager
def asking(cluster: Cluster, address: str, port: int, path: str) -> Iterator[Questions]:
    """Ask an address in the cluster all the time."""
    client = Beside(cluster, sys.executable, "-c", _ASK, address, str(port), path, lines=None)
    try:
        yield Questions(client)
        assert client.alive, client.last()
    finally:
        client.stop()
