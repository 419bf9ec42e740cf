"""A Service with a pod per zone, requests between pods, and the `quintet node` commands, for tests of several nodes."""

import json
import subprocess

from e2e.commands import kubectl
from e2e.conftest import COMMAND
from quintet.local.cluster import Cluster

IMAGE = "quintet.local/json-server:0.17.4"
SERVER = "require('http').createServer((_, answer) => answer.end(require('os').hostname())).listen(8080)"
CLIENT = (
    "require('http').get(process.argv[1], {timeout: 2000}, answer => answer.pipe(process.stdout))"
    ".on('timeout', () => process.exit(1)).on('error', () => process.exit(1))"
)


def web(replicas: int = 2) -> dict[str, object]:
    """Return a Deployment with one pod per node, which moves at once when its node fails, and its Service."""
    labels = {"app": "web"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": {"matchLabels": labels},
    }
    tolerations = [
        {
            "key": f"node.kubernetes.io/{each}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 1,
        }
        for each in ("not-ready", "unreachable")
    ]
    spec = {
        "containers": [{"name": "web", "image": IMAGE, "command": ["node", "-e", SERVER]}],
        "topologySpreadConstraints": [spread],
        "tolerations": tolerations,
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [deployment, service]}


def pods(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return the running pods of `web` by node: name and address."""
    listed = json.loads(kubectl(cluster, "get", "pods", "-l", "app=web", "-o", "json"))["items"]
    return {
        pod["spec"]["nodeName"]: {"name": pod["metadata"]["name"], "address": pod["status"]["podIP"]}
        for pod in listed
        if pod["status"].get("podIP") and not pod["metadata"].get("deletionTimestamp")
    }


def request(cluster: Cluster, pod: str, url: str) -> str:
    """Send a request from a pod; return the response, which is empty if there is none."""
    return cluster.kubectl("exec", pod, "--", "node", "-e", CLIENT, url).stdout


def is_ready(cluster: Cluster, node: str) -> bool:
    """Return whether the condition Ready of a node is True."""
    path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    return kubectl(cluster, "get", "node", node, "-o", path) == "True"


def quintet(cluster: Cluster, *arguments: str) -> str:
    """Run the command on the clusters of the same state directory; return its standard error."""
    state = str(cluster.directory.parents[2])
    environment = cluster.environment | {"XDG_STATE_HOME": state}
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr
