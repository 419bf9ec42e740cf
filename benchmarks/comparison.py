"""Checks that all contenders do the same work, by comparing the objects that they leave.

The first contender of a series sets the reference; one that leaves fewer or different children fails the
run.
"""

from typing import Any

from benchmarks.workloads import Scene
from kit.kinds.jsonservers import CHILD_TYPES
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, ObjectKey

ASSIGNED = ("clusterIP", "clusterIPs")
"""Fields that the API server assigns."""


class Reference:
    """The objects that the first contender of a series created for one custom resource."""

    def __init__(self) -> None:
        self._content: dict[str, JsonObject] = {}

    async def check(self, scene: Scene, namespace: str, names: list[str]) -> None:
        """Raise an error unless all children exist and match those of the first contender."""
        for resource in CHILD_TYPES:
            found = len(await scene.names(resource, namespace))
            if found != len(names):
                raise RuntimeError(f"{found} of {len(names)} {resource.plural} were created")
        for resource in (*CHILD_TYPES, JSONSERVERS):
            raw = await scene.client.get(resource, ObjectKey(namespace, names[0]), dict[str, Any])
            content = comparable_content(raw)
            known = self._content.setdefault(resource.kind, content)
            if content != known:
                raise RuntimeError(
                    f"{resource.kind} differs from the other contenders': {find_differences(known, content)}"
                )


def comparable_content(raw: JsonObject) -> JsonObject:
    """Return what must be equal: content, labels and owners, without hashes, addresses and times."""
    meta = raw["metadata"]
    spec = {name: value for name, value in raw.get("spec", {}).items() if name not in ASSIGNED}
    template = spec.get("template")
    if isinstance(template, dict) and "metadata" in template:
        marks = sorted(template["metadata"].get("annotations", {}))
        spec["template"] = {**template, "metadata": {**template["metadata"], "annotations": marks}}
    owners = [
        {name: value for name, value in owner.items() if name != "uid"}
        for owner in meta.get("ownerReferences", ())
    ]
    return {
        "labels": meta.get("labels", {}),
        "owners": owners,
        "data": raw.get("data"),
        "spec": spec,
        "state": raw.get("status", {}).get("state"),
        "conditions": [
            (each["type"], each["status"], each["reason"], each["message"])
            for each in raw.get("status", {}).get("conditions", ())
        ],
    }


def find_differences(known: JsonObject, content: JsonObject) -> str:
    """Return the parts that differ, in one line."""
    parts = [name for name in known if known[name] != content[name]]
    return "; ".join(f"{name}: {known[name]!r:.500} / {content[name]!r:.500}" for name in parts)
