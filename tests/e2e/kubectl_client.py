"""kubectl in one namespace of the cluster with a node."""

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
# Runs in pods, which have only Node.js: sends one request and prints the response.
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
class KubectlClient:
    """kubectl for one namespace, as the administrator or as the user of `kubeconfig`."""

    cluster: Cluster
    namespace: str
    kubeconfig: Path | None = None

    def run(self, *arguments: str, input: Any = None) -> "subprocess.CompletedProcess[str]":
        """Run kubectl; `input` is an object or text for its standard input."""
        identity = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        text = input if input is None or isinstance(input, str) else json.dumps(input)
        return self.cluster.kubectl(*identity, f"--namespace={self.namespace}", *arguments, input=text)

    def kubectl(self, *arguments: str, input: Any = None) -> str:
        """Run kubectl and assert that it succeeds; return its output."""
        answer = self.run(*arguments, input=input)
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def expect_failure(self, *arguments: str, input: Any = None) -> str:
        """Run kubectl and assert that it fails; return its error output."""
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
        """Run `kubectl wait` in a thread, so that other tasks of the test continue."""
        await asyncio.to_thread(self.kubectl, "wait", *arguments, f"--timeout={seconds:g}s")

    def wait_for(self, name: str, condition: str, seconds: int = 180) -> dict[str, Any]:
        """Wait with `kubectl wait` for a condition of a JsonServer."""
        self.kubectl("wait", f"jsonserver/{name}", f"--for=condition={condition}", f"--timeout={seconds}s")
        return self.get("jsonserver", name)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return the pods of a JsonServer that are not terminating."""
        found = self.get("pods", "", "-l", f"app={name}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def send_request(self, pod: str, url: str, method: str = "GET", body: str = "") -> tuple[int, str]:
        """Send a request from inside a pod; return the status and body of the response."""
        answer = self.kubectl(
            "exec", pod, "-c", "json-server", "--", "node", "-e", REQUEST, "--", method, url, body
        )
        status, _, text = answer.partition(" ")
        return int(status), text

    @contextmanager
    def port_forward(self, name: str) -> Iterator[str]:
        """Forward port 3000 of a Service to loopback; yield its URL."""
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

    def in_namespace(self, namespace: str) -> "KubectlClient":
        """Return a client for another namespace of the same cluster."""
        return replace(self, namespace=namespace)


def object_list(*objects: Any) -> dict[str, Any]:
    """Return a List object, so that one slow call of kubectl applies all objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def find_condition(obj: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a condition of an object; empty if it does not exist."""
    found = obj.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == name), {})


def horizontal_pod_autoscaler(
    api_version: str, kind: str, name: str, least: int, most: int
) -> dict[str, Any]:
    """Return an autoscaler; without a metrics server it only enforces its bounds."""
    target = {"apiVersion": api_version, "kind": kind, "name": name}
    utilization = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": [metric]},
    }


def fetch(url: str) -> bytes:
    """Return the body of a GET request."""
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: bytes = answer.read()
        return content


async def install(client: KubectlClient) -> None:
    """Install the operator with kubectl; wait until both replicas are ready and the webhooks work."""
    system = client.in_namespace(SYSTEM)
    system.kubectl("apply", "-k", str(ROOT / "config/default"))
    system.kubectl("rollout", "status", "deployment/quintet", "--timeout=240s")
    await wait_for_webhooks(system)


async def wait_for_webhooks(system: KubectlClient) -> None:
    """Wait until the webhooks are registered, with a CA bundle, and respond."""

    def registered() -> None:
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            found = system.get(kind, "quintet")["webhooks"]
            assert {each["clientConfig"]["service"]["name"] for each in found} == {"quintet-webhooks"}, found
            assert all(each["clientConfig"].get("caBundle") for each in found), found
        # A Service routes to new pods with a delay.
        system.in_namespace("default").kubectl(
            "apply", "--dry-run=server", "-f", "-", input=a_jsonserver("app-x")
        )

    await eventually(registered, within=120)


def find_forbidden_requests(system: KubectlClient) -> list[str]:
    """Return log lines of the operator with its ServiceAccount, as in errors for a missing permission."""
    log = system.kubectl("logs", "-l", "app.kubernetes.io/name=quintet", "--tail=-1", "--prefix")
    return [line for line in log.splitlines() if "system:serviceaccount:" in line]
