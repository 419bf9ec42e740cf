"""A namespace on the cluster with a node, as a user with kubectl sees it."""

import asyncio
import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver
from quintet.local.cluster import Cluster

SYSTEM = "quintet-system"
ROOT = Path(__file__).parents[2]
# Runs in the pods, which have nothing but Node.js: one request, and what came back.
REQUEST = """
const [method, url, body] = process.argv.slice(1)
const request = require('http').request(url, {method, headers: {'content-type': 'application/json'}}, answer => {
  const parts = []
  answer.on('data', part => parts.push(part))
  answer.on('end', () => process.stdout.write(answer.statusCode + ' ' + Buffer.concat(parts)))
})
request.setTimeout(30000, () => request.destroy(new Error('no answer in 30 s')))
request.on('error', error => process.stdout.write('0 ' + error.message))
request.end(body)
"""


@dataclass(frozen=True)
class Place:
    """A namespace, and as whom we are there."""

    cluster: Cluster
    namespace: str
    kubeconfig: Path | None = None

    def run(self, *arguments: str, input: Any = None) -> "subprocess.CompletedProcess[str]":
        """Call kubectl; `input` is an object, or text."""
        identity = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        text = input if input is None or isinstance(input, str) else json.dumps(input)
        return self.cluster.kubectl(*identity, f"--namespace={self.namespace}", *arguments, input=text)

    def kubectl(self, *arguments: str, input: Any = None) -> str:
        """Call kubectl, which must succeed."""
        answer = self.run(*arguments, input=input)
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def refused(self, *arguments: str, input: Any = None) -> str:
        """Call kubectl, which must fail; what it said."""
        answer = self.run(*arguments, input=input)
        assert answer.returncode != 0, f"kubectl {' '.join(arguments)} was not refused: {answer.stdout}"
        return answer.stderr

    def apply(self, obj: Any) -> str:
        """Apply an object."""
        return self.kubectl("apply", "-f", "-", input=obj)

    def get(self, kind: str, name: str = "", *options: str) -> dict[str, Any]:
        """Return an object, or a list."""
        found: dict[str, Any] = json.loads(
            self.kubectl("get", kind, *([name] if name else []), *options, "-o", "json")
        )
        return found

    async def wait(self, *arguments: str, seconds: float = 180) -> None:
        """Run `kubectl wait`, which watches; tasks of the test go on meanwhile."""
        await asyncio.to_thread(self.kubectl, "wait", *arguments, f"--timeout={seconds:g}s")

    def wait_for(self, name: str, condition: str, seconds: int = 180) -> dict[str, Any]:
        """Wait with `kubectl wait` for a condition of a JsonServer."""
        self.kubectl("wait", f"jsonserver/{name}", f"--for=condition={condition}", f"--timeout={seconds}s")
        return self.get("jsonserver", name)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The pods of a JsonServer that are not on their way out."""
        found = self.get("pods", "", "-l", f"app={name}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def ask(self, pod: str, url: str, method: str = "GET", body: str = "") -> tuple[int, str]:
        """Send a request from inside a pod; status and body of the answer."""
        answer = self.kubectl(
            "exec", pod, "-c", "json-server", "--", "node", "-e", REQUEST, "--", method, url, body
        )
        status, _, text = answer.partition(" ")
        return int(status), text

    @contextmanager
    def forwarded(self, name: str) -> Iterator[str]:
        """Bring port 3000 of a Service to loopback with `kubectl port-forward`; its address."""
        program = str(self.cluster.programs / "kubectl")
        command = [program, f"--namespace={self.namespace}", "port-forward", f"service/{name}", ":3000"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=self.cluster.environment
        ) as forward:
            try:
                assert forward.stdout is not None
                line = forward.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+) -> 3000", line)
                assert found, f"port-forward said {line!r}"
                yield f"http://127.0.0.1:{found[1]}"
            finally:
                forward.kill()

    def at(self, namespace: str) -> "Place":
        """Another namespace of the same cluster."""
        return replace(self, namespace=namespace)


def a_list(*objects: Any) -> dict[str, Any]:
    """Return objects as one, to be applied by one call of kubectl: each starts a process and takes its time."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def a_condition(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """One condition of an object; empty when it is not there."""
    found = obj.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == name), {})


def fetch(url: str) -> bytes:
    """What curl would print."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: bytes = answer.read()
        return content


async def install(place: Place) -> None:
    """Install the operator as a person would, and wait until both replicas and the webhooks are there."""
    system = place.at(SYSTEM)
    system.kubectl("apply", "-k", str(ROOT / "config/default"))
    system.kubectl("rollout", "status", "deployment/quintet", "--timeout=240s")
    await webhooks_registered(system)


async def webhooks_registered(system: Place) -> None:
    """Wait until the API server asks the operator, trusts it and reaches it."""

    def registered() -> None:
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            found = system.get(kind, "quintet")["webhooks"]
            assert {each["clientConfig"]["service"]["name"] for each in found} == {"quintet-webhooks"}, found
            assert all(each["clientConfig"].get("caBundle") for each in found), found
        # A Service follows its pods with a delay.
        system.at("default").kubectl("apply", "--dry-run=server", "-f", "-", input=a_jsonserver("app-x"))

    await eventually(registered, within=120)


def refusals(system: Place) -> list[str]:
    """Lines in the operator's logs in which the API server names it, as it does when it refuses a right."""
    log = system.kubectl("logs", "-l", "app.kubernetes.io/name=quintet", "--tail=-1", "--prefix")
    return [line for line in log.splitlines() if "system:serviceaccount:" in line]
