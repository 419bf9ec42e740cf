"""A minimal valid object of each kind: a dry run with it calls our webhooks."""

from quintet.apis.meta import JsonObject, Resource

NAME = "app-quintet-doctor"
_LABELS = {"app": NAME}
_SPECS: dict[str, JsonObject] = {
    "JsonServer": {"jsonConfig": "{}"},
    "Checkup": {"image": "quintet.local/none:1", "serviceAccountName": "default", "timeoutSeconds": 60},
    "CASConfig": {
        "policies": [
            {"name": "none", "include": {"kinds": ["Deployment"]}, "values": {"envs": {"DOCTOR": "here"}}}
        ]
    },
    "StatefulCluster": {
        "replicas": 1,
        "serviceName": NAME,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "none", "image": "quintet.local/none:1"}]},
        },
    },
    "EventingBackend": {"type": "nats"},
    "Subscription": {
        "source": "doctor",
        "types": ["doctor.asked.v1"],
        "sink": f"http://{NAME}.{{namespace}}.svc.cluster.local",
    },
}


def probe_object(resource: Resource, namespace: str) -> JsonObject:
    """Return a valid object of a kind for a dry run."""
    spec = dict(_SPECS[resource.kind])
    if "sink" in spec:
        spec["sink"] = spec["sink"].format(namespace=namespace)
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": spec,
    }
