"""CASConfigs on a real API server: CRD, controller, the ServiceAccount they act as, and targets.

Targets have no replicas where possible, so that the controllers of Kubernetes have nothing to do.
"""

import contextlib
import copy
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from kit.cluster.access_reviews import service_account_user, wait_until_allowed
from kit.cluster.api import Api
from kit.cluster.service_accounts import context as context_of
from kit.eventually import eventually
from kit.kinds.controllers import install_crds, run_controllers
from quintet.apis.casconfig.types import CASCONFIG, CASCONFIGS, FINALIZER, SERVICE_ACCOUNT, CASConfig
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource, find_condition
from quintet.controllers.casconfig import controller
from quintet.kube.client import Client
from quintet.runtime.manager import Manager

RBAC = "rbac.authorization.k8s.io"
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets")
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets")
CRON_JOBS = Resource("batch", "v1", "CronJob", "cronjobs")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
VERBS = ("get", "list", "watch", "patch")
EVERYTHING = (
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets", "daemonsets"], "verbs": [*VERBS]},
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": [*VERBS]},
    {"apiGroups": [""], "resources": ["configmaps", "services", "pods"], "verbs": [*VERBS]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]},
)
CONTEXT = context_of("casconfig")
IMAGE = "quintet.local/none:1"


async def install(client: Client) -> None:
    """Install the CRD."""
    await install_crds(client, CASCONFIG)


async def bind(
    api: Api,
    namespace: str,
    *rules: JsonObject,
    of: str = "",
    account: str = SERVICE_ACCOUNT,
    name: str = "",
) -> None:
    """Grant permissions in this namespace to the ServiceAccount of a namespace (`of`, or this one)."""
    base, name = f"/apis/{RBAC}/v1/namespaces/{namespace}", name or f"{account}-of-{of or namespace}"
    await api.create(f"{base}/roles", {"metadata": {"name": name}, "rules": list(rules)})
    await api.create(
        f"{base}/rolebindings",
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of or namespace}],
        },
    )


async def create_service_account(api: Api, namespace: str, *rules: JsonObject) -> None:
    """Create the ServiceAccount that CASConfigs act as, by default with permissions on workloads."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(path, {"metadata": {"name": SERVICE_ACCOUNT}})
    await bind(api, namespace, *(rules or EVERYTHING))
    await wait_for_permissions(api, namespace)


async def wait_for_permissions(
    api: Api, namespace: str, verb: str = "list", resource: str = "deployments", *, of: str = ""
) -> None:
    """Wait until the API server applies the permissions."""
    user = service_account_user(of or namespace, SERVICE_ACCOUNT)
    await wait_until_allowed(api, user, verb, resource, group="apps", namespace=namespace)


def a_policy(name: str = "all", /, *, include: JsonObject | None = None, **values: Any) -> JsonObject:
    override = values.pop("override", None)
    policy = {"name": name, "values": values, "include": include or {"kinds": ["Deployment"]}}
    return policy if override is None else {**policy, "override": override}


def a_config(name: str, *policies: JsonObject, **spec: Any) -> JsonObject:
    """A CASConfig as the mutating webhook returns it, with the finalizer."""
    return {
        "apiVersion": CASCONFIGS.api_version,
        "kind": CASCONFIGS.kind,
        "metadata": {"name": name, "finalizers": [FINALIZER]},
        "spec": {"policies": list(policies), **spec},
    }


async def create(client: Client, namespace: str, name: str, *policies: JsonObject, **spec: Any) -> ObjectKey:
    await client.create(CASCONFIGS, a_config(name, *policies, **spec), Object, namespace=namespace)
    return ObjectKey(namespace, name)


async def create_object(
    client: Client, namespace: str, body: JsonObject, resource: Resource = DEPLOYMENTS
) -> JsonObject:
    """Create an object, by default a Deployment."""
    return await client.create(resource, body, dict[str, Any], namespace=namespace)


async def get_object(
    client: Client, namespace: str, name: str, resource: Resource = DEPLOYMENTS
) -> JsonObject:
    """Read an object."""
    return await client.get(resource, ObjectKey(namespace, name), dict[str, Any])


async def edit(client: Client, key: ObjectKey, *policies: JsonObject, **spec: Any) -> None:
    """Replace policies or other fields of the spec."""
    changed = {**spec, **({"policies": list(policies)} if policies else {})}
    await client.patch(CASCONFIGS, key, {"spec": changed}, Object)


async def get(client: Client, key: ObjectKey) -> CASConfig:
    return await client.get(CASCONFIGS, key, CASConfig)


async def wait_for_reason(
    client: Client, key: ObjectKey, reason: str, *, condition: str = "Ready", within: float = 120.0
) -> CASConfig:
    """Wait for a condition of the current generation with this reason, and return the CASConfig."""

    async def probe() -> CASConfig:
        found = await get(client, key)
        seen = find_condition(found.status.conditions, condition)
        assert seen is not None, found.status
        assert seen.observed_generation == found.metadata.generation, found.status
        assert seen.reason == reason, found.status
        return found

    return await eventually(probe, within=within)


async def wait_until_applied(
    client: Client, key: ObjectKey, targets: int, *, within: float = 120.0
) -> CASConfig:
    """Wait until this many targets have the desired values, and return the CASConfig."""

    async def probe() -> CASConfig:
        found = await get(client, key)
        ready = find_condition(found.status.conditions, "Ready")
        assert found.status.observed_generation == found.metadata.generation, found.status
        assert ready is not None, found.status
        assert (ready.status, found.status.applied, found.status.matched) == ("True", targets, targets), (
            found.status
        )
        return found

    return await eventually(probe, within=within)


async def delete_and_wait(client: Client, key: ObjectKey, *, within: float = 120.0) -> None:
    """Delete a CASConfig and wait until its changes are undone and it is gone."""
    await client.delete(CASCONFIGS, key)
    await wait_until_gone(client, key, within=within)


async def wait_until_gone(client: Client, key: ObjectKey, *, within: float = 120.0) -> None:
    from kit.cluster.objects import exists

    async def probe() -> None:
        assert not await exists(client, CASCONFIGS, key), (await get(client, key)).status

    await eventually(probe, within=within)


def a_template(name: str = "app", **spec: Any) -> JsonObject:
    containers = [
        {"name": "main", "image": IMAGE, "env": [{"name": "KEPT", "value": "yes"}]},
        {"name": "second", "image": IMAGE},
    ]
    pod = {
        "initContainers": [{"name": "prepare", "image": IMAGE}],
        "containers": containers,
        "tolerations": [{"key": "there", "operator": "Exists"}],
        **spec,
    }
    return {"metadata": {"labels": {"app": name}}, "spec": pod}


def a_deployment(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": a_template(name),
            **spec,
        },
    }


def a_workload(resource: Resource, name: str) -> JsonObject:
    """A workload with a pod template."""
    body = copy.deepcopy(a_deployment(name))
    body |= {"apiVersion": resource.api_version, "kind": resource.kind}
    if resource == STATEFUL_SETS:
        body["spec"]["serviceName"] = name
    if resource == DAEMON_SETS:
        del body["spec"]["replicas"]
    if resource == CRON_JOBS:
        template = a_template(name, restartPolicy="Never")
        job = {"template": template}
        body["spec"] = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}
    return body


def template_of(obj: JsonObject) -> JsonObject:
    spec = obj["spec"]
    found: JsonObject = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    return found


def comparable_fields(obj: JsonObject) -> JsonObject:
    """Return the fields that must be unchanged after an undo."""
    kept = {name: value for name, value in obj.items() if name not in ("status", "metadata")}
    metadata = obj["metadata"]
    # Set by the controllers of Kubernetes when a template changes.
    annotations = {
        key: value
        for key, value in metadata.get("annotations", {}).items()
        if not key.startswith(("deployment.kubernetes.io/", "deprecated.daemonset.template.generation"))
    }
    return {
        **kept,
        "name": metadata["name"],
        "labels": metadata.get("labels", {}),
        "annotations": annotations,
    }


@contextlib.asynccontextmanager
async def casconfig_operator(
    kubeconfig: Path, *, operator: str = "", context: str | None = CONTEXT, **options: Any
) -> AsyncIterator[Manager]:
    """Run the controller in this process while inside; `operator` is its namespace."""
    build = functools.partial(controller.build, operator=operator)
    async with run_controllers(kubeconfig, build, context=context, **options) as manager:
        yield manager
