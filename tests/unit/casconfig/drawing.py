"""Objects and policies made from small whole numbers."""

import msgspec

from quintet.apis.casconfig import Policy
from unit.casconfig.server import JOB_TEMPLATE, TEMPLATE, at


def a_start(code):
    """An object as its users made it."""
    pod = (TEMPLATE, JOB_TEMPLATE, None)[code % 3]
    obj = {"kind": "Thing", "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "1"}}
    if code & 4:
        obj["metadata"]["labels"] = {"k0": "o0", "k1": "o1"}
    if code & 8:
        obj["metadata"]["annotations"] = {"k0": "o0"}
    if pod is None:
        return obj, pod
    spec = at(obj, pod)
    spec["containers"] = [{"name": "web", "image": "o:1"}]
    if code & 16:
        spec["containers"].append({"name": "log", "image": "o:2", "env": [{"name": "E0", "value": "o0"}]})
    if code & 32:
        spec["containers"][0]["env"] = [
            {"name": "E1", "value": "o1"},
            {"name": "E2", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ]
    if code & 64:
        spec["initContainers"] = [{"name": "init", "image": "o:3"}]
    if code & 128:
        spec["tolerations"] = [{"key": "t0", "operator": "Exists"}]
    return obj, pod


def a_policy(code, number=0):
    """One policy; every bit of the code is one thing that it does."""
    values, value = {}, f"c{code % 3}"
    if code & 4:
        values["labels"] = {f"k{code % 2}": value, "k2": value}
    if code & 8:
        values["annotations"] = {"k0": value}
    if code & 16:
        values["envs"] = {f"E{code % 3}": value, "E3": value}
    if code & 32:
        name = ("side", "web", "log", "z0")[code % 4]
        sidecar = {"name": name, "image": f"c:{value}", "env": [{"name": "E0", "value": value}]}
        if code & 256:
            sidecar["resources"] = {"limits": {"cpu": "1000m"}}
        if code & 512:
            sidecar |= {"name": "proxy", "restartPolicy": "Always"}
        values["sidecars"] = [sidecar]
    if code & 64:
        values["tolerations"] = [{"key": "t0", "operator": "Exists"}, {"key": value, "operator": "Exists"}]
    if code & 128:
        # Kubernetes always pulls `latest`, even next to a digest.
        tag = f"c:latest@sha256:{value}" if code & 512 else f"c:{value}"
        values["mainContainer"] = {"name": ("web", "main")[code % 2], "image": tag}
    if code & 1024:
        values["containers"] = [
            {"name": name, "image": f"c:{value}"} for name in ("app", "web")[: 1 + code % 2]
        ]
    policy = {
        "name": f"p{number}",
        "include": {"names": ["*"]},
        "values": values,
        "override": bool(code & 2048),
    }
    return msgspec.convert(policy, Policy)
