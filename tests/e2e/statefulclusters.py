"""StatefulClusters of a real program, NATS with JetStream: making them, and the data that they hold.

Every replica is a server by itself, so that a record lies on one volume and nowhere else: what is
lost there is lost, and no copy on another replica can hide it.
"""

from typing import Any

from e2e.place import Place, a_condition
from kit.cluster.pod_recorder import Pod, claims_of, is_leaving, is_ready
from kit.eventually import eventually

NAME = "records"
IMAGE = "quintet.local/nats:2.15.2"
LABELS = {"app": NAME}
API_VERSION = "enge.me/v1alpha1"


def a_pod_template(image: str = IMAGE, **annotations: str) -> dict[str, Any]:
    """A NATS server that keeps the `restricted` standard."""
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
                        # A server that answers late on a busy machine is none that is not ready.
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
    """A StatefulCluster, or the StatefulSet that differs in nothing but its kind."""
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


def an_autoscaler(least: int, most: int) -> Any:
    """There is no metrics server here; what an autoscaler does without one is to keep to its bounds."""
    target = {"apiVersion": API_VERSION, "kind": "StatefulCluster", "name": NAME}
    utilization = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": utilization}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME},
        "spec": {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most, "metrics": [metric]},
    }


def pods(place: Place, kind: str = "StatefulCluster") -> dict[str, Pod]:
    """The pods that are not on their way out, by name."""
    found = place.get("pods", "", "-l", f"kind={kind}")["items"]
    return {pod["metadata"]["name"]: pod for pod in found if not is_leaving(pod)}


def claims(place: Place) -> dict[str, str]:
    """The uids of all claims, by name."""
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in place.get("pvc")["items"]}


def placed(place: Place) -> dict[str, set[str]]:
    """Which replica has which claims."""
    return {name: claims_of(pod) for name, pod in pods(place).items()}


def ledger(found: dict[str, Any]) -> dict[str, str]:
    """The state of every claim, as the StatefulCluster tells it."""
    return {each["name"]: each["state"] for each in found["status"].get("claims", ())}


async def settled(place: Place, replicas: int = 3, name: str = NAME, within: float = 180) -> dict[str, Any]:
    """The StatefulCluster, once its status says of this generation that all is as asked."""

    def probe() -> dict[str, Any]:
        found = place.get("statefulcluster", name)
        generation, status = found["metadata"]["generation"], found.get("status", {})
        seen = a_condition(found, "Ready")
        assert (seen.get("status"), status.get("observedGeneration")) == ("True", generation), status
        counts = [status[f"{each}Replicas"] for each in ("ready", "updated", "available")]
        assert [status["replicas"], *counts] == [replicas] * 4, status
        there = place.get("pods", "", "-l", "kind=StatefulCluster")["items"]
        assert len(there) == replicas, status
        assert all(is_ready(pod) for pod in there), status
        return found

    await place.wait(f"statefulcluster/{name}", "--for=condition=Ready", seconds=within)
    return await eventually(probe, within=within)


def put(place: Place, pod: str, key: str, value: str) -> None:
    """Write a record; it is stored when this returns."""
    place.kubectl("exec", pod, "--", "kv", "put", key, value)


def records(place: Place, pod: str) -> dict[str, str]:
    """All records that one replica holds."""
    lines = place.kubectl("exec", pod, "--", "kv", "list").splitlines()
    return dict(line.split("=", 1) for line in lines)


async def all_records(place: Place) -> dict[str, str]:
    """The records of all replicas, by key: each is in one place only."""
    found: dict[str, str] = {}
    for pod in pods(place):
        held = records(place, pod)
        assert not held.keys() & found.keys(), f"in two places: {held.keys() & found.keys()}"
        found |= held
    return found


def fill(place: Place) -> dict[str, str]:
    """Write a record of its own to every replica; all of them, by key. The key names the claim it lies on."""
    written = {}
    for name, pod in pods(place).items():
        (claim,) = claims_of(pod)
        put(place, name, claim, f"written by {name}")
        written[claim] = f"written by {name}"
    return written


async def each_where_it_was(place: Place, written: dict[str, str]) -> None:
    """Assert that every record is still there, and on the claim that it was written to."""
    for name, pod in pods(place).items():
        (claim,) = claims_of(pod)
        held = records(place, name)
        assert held == {claim: written[claim]}, f"{name} on {claim} holds {held}"
    assert await all_records(place) == written
