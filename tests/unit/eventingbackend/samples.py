"""Backends for unit tests, as the API server would hand them out."""

from typing import Any

import msgspec

from quintet.apis.eventingbackend import CATALOG, Effective, EventingBackend, effective


def a_backend(
    name: str = "bus",
    type: str = "nats",
    *,
    namespace: str = "shop",
    uid: str = "uid-1",
    created: str = "2026-01-01T00:00:00Z",
    deleting: bool = False,
    in_use: Effective | None = None,
    **entries: Any,
) -> EventingBackend:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "1",
        "creationTimestamp": created,
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    status: dict[str, Any] = {}
    if in_use is not None:
        status = {
            "backendType": in_use.backend.name,
            "effectiveConfig": msgspec.to_builtins(in_use.entries()),
        }
    spec = {"type": type, "config": [{key: value} for key, value in entries.items()]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, EventingBackend)


def a_config(type: str = "nats", **values: Any) -> Effective:
    return effective(CATALOG[type], values)
