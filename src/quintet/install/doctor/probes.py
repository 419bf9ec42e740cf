"""Minimal valid objects of each kind: sent as a dry run, they make the API server call our webhooks."""

from quintet import kinds
from quintet.apis.meta import JsonObject, Resource


def probe_object(resource: Resource, namespace: str) -> JsonObject:
    """Return a minimal valid object of a kind in a namespace."""
    kind = kinds.find(resource.api_version, resource.kind)
    assert kind is not None
    spec = {
        key: value.replace("{namespace}", namespace) if isinstance(value, str) else value
        for key, value in kind.probe.items()
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": kinds.PROBE_NAME, "namespace": namespace},
        "spec": spec,
    }
