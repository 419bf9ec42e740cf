"""What a container must not ask for when a config brings it into pods of others. Pure.

These are the container fields of the Pod Security Standard *baseline*. A config acts with the rights of a
ServiceAccount, and whoever may write configs must not gain a node through them. A container cannot choose
a ServiceAccount, a volume or the network of its pod: those are fields of the pod, and no value sets them.
"""

from collections.abc import Iterator
from typing import Any, Final

from quintet.apis.casconfig.places import ABSENT, Path, Subject
from quintet.apis.fields import FieldPath
from quintet.apis.meta import JsonObject

ALLOWED_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def value_risks(path: Path, value: Any) -> Iterator[tuple[FieldPath, str]]:
    """Yield the risks of one value of a container, at its path relative to the pod."""
    field, name = path[:2]
    subject = Subject({"spec": {field: [{"name": name}]}})
    if value is ABSENT:
        return
    if subject.put(("spec", *path), value) is None:
        yield FieldPath(*path), "no config sets a part of an item of a list"
    else:
        yield from risks(subject.object["spec"][field][0], FieldPath(f"{field}[{name}]"))


def risks(container: JsonObject, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Everything that would give the container more than its pod has, and why it is refused."""
    context, where = _map(container.get("securityContext")), path.child("securityContext")
    if context.get("privileged"):
        yield where.child("privileged"), "a privileged container owns the node"
    if context.get("allowPrivilegeEscalation"):
        yield where.child("allowPrivilegeEscalation"), "an injected container must not become root by itself"
    for capability in _list(_map(context.get("capabilities")).get("add")):
        if str(capability) not in ALLOWED_CAPABILITIES:
            yield (
                where.child("capabilities", "add"),
                f"the capability {capability} reaches beyond the container",
            )
    if context.get("procMount") not in (None, "", "Default"):
        yield where.child("procMount"), "only the default masks what /proc shows of the node"
    if _map(context.get("windowsOptions")).get("hostProcess"):
        yield where.child("windowsOptions", "hostProcess"), "a host process owns the node"
    for profile in ("seccompProfile", "appArmorProfile"):
        if _map(context.get(profile)).get("type") == "Unconfined":
            yield where.child(profile, "type"), "an unconfined container may call whatever the kernel has"
    yield from _selinux(_map(context.get("seLinuxOptions")), where.child("seLinuxOptions"))
    yield from _hosts(container, path)
    for index, port in enumerate(_list(container.get("ports"))):
        if _map(port).get("hostPort"):
            yield (
                path.child("ports").index(index).child("hostPort"),
                "a port of the node belongs to the cluster",
            )


def _hosts(container: JsonObject, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yield the hosts that the kubelet would connect to from the network of the node."""
    lifecycle = _map(container.get("lifecycle"))
    handlers = [(path.child(name), container.get(name)) for name in _PROBES]
    handlers += [(path.child("lifecycle", name), lifecycle.get(name)) for name in ("postStart", "preStop")]
    for where, handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            if _map(_map(handler).get(action)).get("host"):
                why = "the kubelet connects from the network of the node, and may only connect to the pod"
                yield where.child(action, "host"), why


def _selinux(options: JsonObject, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if options.get("type", "") not in _SELINUX_TYPES:
        yield path.child("type"), "only types of containers are allowed"
    for field in ("user", "role"):
        if options.get(field):
            yield path.child(field), "must be left to the node"


def _map(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
