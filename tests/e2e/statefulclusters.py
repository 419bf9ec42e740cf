"""Builds StatefulClusters of NATS with JetStream, and writes and reads their records.

Each replica is a separate server, so that a record is on one volume only: no copy on another replica can
hide a loss.
"""

from typing import Any

from e2e.kubectl_client import KubectlClient, find_condition
from kit.cluster.pod_recorder import Pod, claims_of, is_leaving, is_ready
from kit.eventually import eventually

NAME = "records"
IMAGE = "quintet.local/nats:2.15.2"
LABELS = {"app": NAME}
API_VERSION = "enge.me/v1alpha1"


def a_pod_template(image: str = IMAGE, **annotations: str) -> dict[str, Any]:
    """Return the pod template of a NATS server that meets the `restricted` standard."""
    return {
        "metadata": {"labels": LABELS, "annotations": annotations},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 5,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "nats",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["--jetstream", "--store_dir", "/data", "--http_port", "8222"],
                    "ports": [{"name": "client", "containerPort": 4222}],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8222},
                        "periodSeconds": 1,
                        # A slow response on a busy machine does not mean that the server is not ready.
                        "timeoutSeconds": 10,
                        "failureThreshold": 6,
                    },
                    "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
        },
    }


def a_cluster(replicas: int = 3, kind: str = "StatefulCluster", name: str = NAME, **spec: Any) -> Any:
    """Return a StatefulCluster, or a StatefulSet that differs only in its kind."""
    template = spec.pop("template", None) or a_pod_template()
    labels = {**LABELS, "kind": kind}
    template["metadata"]["labels"] = labels
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}},
    }
    return {
        "apiVersion": API_VERSION if kind == "StatefulCluster" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": template,
            "volumeClaimTemplates": [claim],
            **spec,
        },
    }


def a_headless_service(name: str = NAME) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "selector": LABELS,
            "ports": [{"name": "client", "port": 4222}],
        },
    }


def pods(client: KubectlClient, kind: str = "StatefulCluster") -> dict[str, Pod]:
    """Return the pods that are not terminating, by name."""
    found = client.get("pods", "", "-l", f"kind={kind}")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if not is_leaving(pod)}


def claims(client: KubectlClient) -> dict[str, str]:
    """Return the UIDs of all claims by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in client.get("pvc")["items"]}


def claims_by_pod(client: KubectlClient) -> dict[str, set[str]]:
    """Return the claims of each pod."""
    return {name: claims_of(pod) for name, pod in pods(client).items()}


def claim_states(found: dict[str, Any]) -> dict[str, str]:
    """Return the state of every claim in the status of a StatefulCluster."""
    return {each["name"]: each["state"] for each in found["status"].get("claims", ())}


async def wait_until_ready(
    client: KubectlClient, replicas: int = 3, name: str = NAME, within: float = 180
) -> dict[str, Any]:
    """Wait until the current generation is rolled out; return the StatefulCluster."""

    def probe() -> dict[str, Any]:
        found = client.get("statefulcluster", name)
        generation, status = found["metadata"]["generation"], found.get("status", {})
        seen = find_condition(found, "Ready")
        assert (seen.get("status"), status.get("observedGeneration")) == ("True", generation), status
        counts = [status[f"{each}Replicas"] for each in ("ready", "updated", "available")]
        assert [status["replicas"], *counts] == [replicas] * 4, status
        there = client.get("pods", "", "-l", "kind=StatefulCluster")["items"]
        assert len(there) == replicas, status
        assert all(is_ready(pod) for pod in there), status
        return found

    await client.wait(f"statefulcluster/{name}", "--for=condition=Ready", seconds=within)
    return await eventually(probe, within=within)


def put_record(client: KubectlClient, pod: str, key: str, value: str) -> None:
    """Write a record to the replica's volume."""
    client.kubectl("exec", pod, "--", "kv", "put", key, value)


def records(client: KubectlClient, pod: str) -> dict[str, str]:
    """Return all records of a replica."""
    lines = client.kubectl("exec", pod, "--", "kv", "list").splitlines()
    return dict(line.split("=", 1) for line in lines)


async def all_records(client: KubectlClient) -> dict[str, str]:
    """The records of all replicas, by key: assert that none is on two replicas."""
    found: dict[str, str] = {}
    for pod in pods(client):
        held = records(client, pod)
        assert not held.keys() & found.keys(), f"on two replicas: {held.keys() & found.keys()}"
        found |= held
    return found


def write_records(client: KubectlClient) -> dict[str, str]:
    """Write one record per replica, with the name of its claim as key; return all records."""
    written = {}
    for name, pod in pods(client).items():
        (claim,) = claims_of(pod)
        put_record(client, name, claim, f"written by {name}")
        written[claim] = f"written by {name}"
    return written


async def assert_records_unchanged(client: KubectlClient, written: dict[str, str]) -> None:
    """Assert that every record is on the claim that it was written to."""
    for name, pod in pods(client).items():
        (claim,) = claims_of(pod)
        held = records(client, name)
        assert held == {claim: written[claim]}, f"{name} on {claim} holds {held}"
    assert await all_records(client) == written
