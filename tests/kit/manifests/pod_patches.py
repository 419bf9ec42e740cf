"""Patches of pod templates, generated from the schema of a pod: valid, nearly valid and hostile ones."""

from typing import Any

from hypothesis import strategies as st

from quintet.apis.meta import JsonObject
from quintet.apis.podtemplate import pod_patch_schema
from quintet.apis.structural import QUANTITY

JUNK = (None, True, 7, -1.5, "x", "", [], ["x"], [None], {}, {"x": 1}, {"name": "x"})
TEXTS = ("x", "json-server", "checkup", "copy-config", "json-config", "data", "/data/", "/data", "//data/.", "/tmp", "UDP", "TCP", "Always", "http", "MESSAGE", "RESULT_CONFIGMAP_NAME", "")  # fmt: skip
NUMBERS = (0, 1, 3000, 8080, -1, 65_536, 2**31, 2**63)
QUANTITIES = (1, 0.5, "100m", "1Gi", "-1", "many", "")
# Users set these most, and most defects are in them.
USUAL = ("containers", "volumes", "initContainers", "securityContext", "tolerations", "nodeSelector")
USUAL_OF_CONTAINERS = ("name", "image", "env", "ports", "volumeMounts", "resources", "readinessProbe", "args")


def pod_patches() -> st.SearchStrategy[JsonObject]:
    """Generate a patch of a pod spec."""
    return _values(pod_patch_schema(), 0)  # type: ignore[return-value]


@st.composite
def _values(draw: st.DrawFn, schema: JsonObject, depth: int) -> Any:
    if depth and draw(st.integers(0, 24)) == 0:
        return draw(st.sampled_from(JUNK))
    if schema == QUANTITY:
        return draw(st.sampled_from(QUANTITIES))
    if "enum" in schema:
        return draw(st.sampled_from((*schema["enum"], "x")))
    kind = schema.get("type", "string")
    if kind == "object":
        return draw(_objects(schema, depth))
    if kind == "array":
        return [draw(_values(schema["items"], depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    if kind == "boolean":
        return draw(st.booleans())
    either = schema.get("x-kubernetes-int-or-string") and draw(st.booleans())
    return draw(st.sampled_from(NUMBERS if kind == "integer" or either else TEXTS))


@st.composite
def _objects(draw: st.DrawFn, schema: JsonObject, depth: int) -> JsonObject:
    if "additionalProperties" in schema:
        keys = draw(st.lists(st.sampled_from(("cpu", "memory", "x", "a b")), max_size=2, unique=True))
        return {key: draw(_values(schema["additionalProperties"], depth + 1)) for key in keys}
    known = schema.get("properties", {})
    usual = [name for name in (*USUAL, *USUAL_OF_CONTAINERS) if name in known]
    names = draw(st.lists(st.sampled_from((*usual, *usual, *sorted(known))), max_size=3)) if known else []
    required = [name for name in schema.get("required", ()) if draw(st.integers(0, 19))]
    made = {name: draw(_values(known[name], depth + 1)) for name in dict.fromkeys((*required, *names))}
    if depth and draw(st.integers(0, 39)) == 0:
        made["unknownField"] = 1
    return made
