"""That all contenders do the same work: what they leave behind is compared, not what they claim.

The first contender of a series sets the reference; another that leaves fewer children, or
children with other content, fails the run instead of winning it.
"""

from typing import Any

from benchmarks.workloads import Scene
from kit.kinds.jsonservers import CHILD_TYPES
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import JsonObject, ObjectKey

ASSIGNED = ("clusterIP", "clusterIPs")
"""Chosen by the server."""


class Reference:
    """What the first contender of a series made of one custom resource."""

    def __init__(self) -> None:
        self._content: dict[str, JsonObject] = {}

    async def check(self, scene: Scene, namespace: str, names: list[str]) -> None:
        """Raise unless all children are there and the first one's are like everybody's."""
        for resource in CHILD_TYPES:
            found = len(await scene.names(resource, namespace))
            if found != len(names):
                raise RuntimeError(f"{found} of {len(names)} {resource.plural} were made")
        for resource in (*CHILD_TYPES, JSONSERVERS):
            raw = await scene.client.get(resource, ObjectKey(namespace, names[0]), dict[str, Any])
            content = essence(raw)
            known = self._content.setdefault(resource.kind, content)
            if content != known:
                raise RuntimeError(
                    f"not the same {resource.kind} as the others make: {differing(known, content)}"
                )


def essence(raw: JsonObject) -> JsonObject:
    """What must be equal: content, labels and owner; not names of hashes, addresses or times."""
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


def differing(known: JsonObject, content: JsonObject) -> str:
    """The parts that are not alike, in one line."""
    parts = [name for name in known if known[name] != content[name]]
    return "; ".join(f"{name}: {known[name]!r:.500} / {content[name]!r:.500}" for name in parts)
