"""Complete manifests of one checkup run. The same spec gives the same bytes."""

from typing import Final

from quintet.apis.checkup import Checkup, params
from quintet.apis.checkup import contract as c
from quintet.apis.meta import JsonObject, Resource
from quintet.controllers.checkup.decide.timing import job_deadline, pod_deadline
from quintet.controllers.decide.overlay import overlay

RBAC: Final = "rbac.authorization.k8s.io"
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
ROLES = Resource(RBAC, "v1", "Role", "roles")
ROLE_BINDINGS = Resource(RBAC, "v1", "RoleBinding", "rolebindings")
JOBS = Resource("batch", "v1", "Job", "jobs")

SELECTOR: Final = f"{c.NAME_LABEL}={c.APP},app.kubernetes.io/managed-by=quintet"
"""Label selector of all children."""

RESULT_VERBS: Final = ("get", "update", "patch")
"""Verbs that a checkup gets on its results. The controller has exactly these, so it may grant them."""

_GRACE_SECONDS = 5


def run_name(checkup: Checkup, number: int) -> str:
    """Return the name of the objects of a run."""
    return c.object_name(checkup.metadata.name, checkup.metadata.uid, number)


def config_map(checkup: Checkup, name: str) -> JsonObject:
    """Return the ConfigMap with the parameters, to which the checkup writes its results."""
    given = params.parse(checkup.spec.params).values
    data = {f"{c.KEY_PARAM}{key}": value for key, value in given.items()}
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": _metadata(checkup, name),
        "data": {c.KEY_TIMEOUT: f"{checkup.spec.seconds}s", **data},
    }


def role(checkup: Checkup, name: str) -> JsonObject:
    """Return the Role that allows writing that one ConfigMap."""
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [name],
        "verbs": list(RESULT_VERBS),
    }
    return {
        "apiVersion": ROLES.api_version,
        "kind": ROLES.kind,
        "metadata": _metadata(checkup, name),
        "rules": [rule],
    }


def role_binding(checkup: Checkup, name: str) -> JsonObject:
    """Return the RoleBinding for the checkup's ServiceAccount."""
    subject = {
        "kind": "ServiceAccount",
        "name": checkup.spec.service_account_name,
        "namespace": checkup.metadata.namespace,
    }
    return {
        "apiVersion": ROLE_BINDINGS.api_version,
        "kind": ROLE_BINDINGS.kind,
        "metadata": _metadata(checkup, name),
        "roleRef": {"apiGroup": RBAC, "kind": ROLES.kind, "name": name},
        "subjects": [subject],
    }


def job(checkup: Checkup, name: str, run: int) -> JsonObject:
    """Return the Job, which runs the checkup once, without retries."""
    custom, seconds = checkup.spec.template, checkup.spec.seconds
    labels = {**child_labels(checkup), c.RUN_LABEL: str(run)}
    template = {
        "metadata": {
            # Our labels override the user's: they identify the pod.
            "labels": {**custom.metadata.labels, **labels},
            "annotations": {**custom.metadata.annotations, c.NAME_ANNOTATION: checkup.metadata.name},
        },
        "spec": overlay(_pod(checkup, name), custom.spec),
    }
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": _metadata(checkup, name),
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": job_deadline(seconds), "template": template},
    }


def _metadata(checkup: Checkup, name: str) -> JsonObject:
    return {"name": name, "namespace": checkup.metadata.namespace, "labels": child_labels(checkup)}


def child_labels(checkup: Checkup) -> dict[str, str]:
    """Return the labels that select the children of a Checkup."""
    return {
        c.NAME_LABEL: c.APP,
        "app.kubernetes.io/managed-by": "quintet",
        "app.kubernetes.io/part-of": "quintet",
        c.UID_LABEL: checkup.metadata.uid,
    }


def _pod(checkup: Checkup, name: str) -> JsonObject:
    return {
        "serviceAccountName": checkup.spec.service_account_name,
        "restartPolicy": "Never",
        "activeDeadlineSeconds": pod_deadline(checkup.spec.seconds),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": c.CONTAINER,
                "image": checkup.spec.image,
                "env": _env(checkup, name),
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def _env(checkup: Checkup, name: str) -> list[JsonObject]:
    meta = checkup.metadata
    fixed = {
        c.CHECKUP_UID: meta.uid,
        c.RESULT_CONFIGMAP_NAME: name,
        c.RESULT_CONFIGMAP_NAMESPACE: meta.namespace,
        c.CONFIGMAP_NAME: name,
        c.CONFIGMAP_NAMESPACE: meta.namespace,
    }
    given = params.parse(checkup.spec.params).values
    return [
        *({"name": key, "value": value} for key, value in fixed.items()),
        {"name": c.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        # The kubelet expands $(NAME) in values; `$$` escapes it.
        *({"name": params.variable(key), "value": value.replace("$", "$$")} for key, value in given.items()),
    ]
