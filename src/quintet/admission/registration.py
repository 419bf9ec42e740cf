"""The MutatingWebhookConfiguration and ValidatingWebhookConfiguration of an installation.

If our webhooks are down, users can only not create or change objects of our kinds: subresources,
deletions and objects that are being deleted are excluded.
"""

import base64
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from quintet.admission.review import Admission
from quintet.apis.jsonpatch import same
from quintet.apis.meta import JsonObject, Object, ObjectKey, Resource
from quintet.kube.client import Client
from quintet.kube.errors import NotFound, WriteFenced
from quintet.runtime.ownership import APPLIED, digest

GROUP = "admissionregistration.k8s.io"
MUTATING = Resource(
    GROUP, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING = Resource(
    GROUP, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
NAME = "quintet"
LOCAL_NAME = "quintet-local"
"""For a process outside the cluster, next to an installation inside."""
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """A webhook server behind a Service."""

    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> JsonObject:
        """Return the clientConfig of a webhook with this path."""
        service = {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}
        return {"service": service}


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A webhook server at a URL that the API server can reach."""

    base: str

    def client_config(self, path: str) -> JsonObject:
        """Return the clientConfig of a webhook with this path."""
        return {"url": f"{self.base}{path}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    """How the API server reaches the webhooks, and for which namespaces."""

    at: ServiceTarget | UrlTarget
    name: str = NAME
    inject_ca_from: str = ""
    """`namespace/name` of a cert-manager Certificate, from which cert-manager sets the caBundle."""
    namespace_selector: JsonObject | None = None


def configurations(
    endpoint: WebhookEndpoint, admissions: Iterable[Admission], bundle: bytes | None
) -> list[tuple[Resource, JsonObject]]:
    """Return both configurations; a kind without defaults has no mutating webhook."""
    declared = tuple(admissions)
    defaulting = tuple(each for each in declared if each.default is not None)
    desired = []
    for resource, verb, chosen in ((MUTATING, "mutate", defaulting), (VALIDATING, "validate", declared)):
        webhooks = [_webhook(endpoint, verb, each, bundle) for each in chosen]
        # The digest changes when webhooks are removed from the desired list, which `covers` cannot detect.
        annotations = {APPLIED: digest({"webhooks": webhooks})}
        if endpoint.inject_ca_from:
            annotations[INJECT_CA_FROM] = endpoint.inject_ca_from
        labels = {"app.kubernetes.io/part-of": "quintet"}
        metadata = {"name": endpoint.name, "annotations": annotations, "labels": labels}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        desired.append((resource, {**body, "webhooks": webhooks}))
    return desired


def select_namespaces(names: Iterable[str]) -> JsonObject | None:
    """Return a selector of the namespaces with these names; None, for all, if there are no names."""
    values = sorted(names)
    label = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": values}
    return {"matchExpressions": [label]} if values else None


def _webhook(endpoint: WebhookEndpoint, verb: str, admission: Admission, bundle: bytes | None) -> JsonObject:
    resource = admission.resource
    client = endpoint.at.client_config(f"/{verb}/{admission.path}")
    if bundle is not None and not endpoint.inject_ca_from:
        client["caBundle"] = base64.b64encode(bundle).decode()
    webhook = {
        "name": ".".join(filter(None, (verb, admission.variant, resource.qualified))),
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
                "operations": [operation.value for operation in admission.operations],
                "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "admissionReviewVersions": ["v1"],
        # Removing the last finalizer is an update, too, and must not depend on our webhooks.
        "matchConditions": [
            {"name": "not-deleting", "expression": "!has(object.metadata.deletionTimestamp)"},
        ],
    }
    selectors = [endpoint.namespace_selector, admission.validation_namespaces if verb == "validate" else None]
    if chosen := [selector for selector in selectors if selector is not None]:
        webhook["namespaceSelector"] = _combine(*chosen)
    return webhook


def _combine(*selectors: JsonObject) -> JsonObject:
    """Return one selector that requires all the given ones."""
    requirements = [
        {"key": key, "operator": "In", "values": [value]}
        for selector in selectors
        for key, value in selector.get("matchLabels", {}).items()
    ]
    requirements += [entry for selector in selectors for entry in selector.get("matchExpressions", ())]
    return {"matchExpressions": requirements} if len(selectors) > 1 else selectors[0]


class Registration:
    """Keeps the webhook configurations of one installation up to date.

    Use the manager's client, so that only the leader writes: during an upgrade, replicas of two versions
    would overwrite each other's changes.
    """

    def __init__(self, client: Client, endpoint: WebhookEndpoint, admissions: Iterable[Admission]) -> None:
        self._client = client.with_manager("quintet-webhooks")
        self._endpoint = endpoint
        self._admissions = tuple(admissions)

    async def ensure(self, bundle: bytes | None) -> bool:
        """Apply the configurations that differ; return False if only the leader may do that."""
        for resource, desired in configurations(self._endpoint, self._admissions, bundle):
            key = ObjectKey("", self._endpoint.name)
            try:
                live: JsonObject = await self._client.get(resource, key, dict[str, Any])
            except NotFound:
                live = {}
            if covers(live, desired) or not (live or desired["webhooks"]):
                continue
            try:
                await self._client.apply(resource, key, desired, Object)
            except WriteFenced:
                # The leader applies it long before a certificate needs the new bundle (see `lead`).
                return False
            log.info("Webhooks registered", extra={"configuration": f"{resource.kind}/{key}"})
        return True

    async def remove(self) -> None:
        """Delete both configurations, so that the API server does not call a stopped server."""
        for resource in (MUTATING, VALIDATING):
            try:
                await self._client.delete(resource, ObjectKey("", self._endpoint.name))
            except NotFound:
                continue


def covers(live: Any, desired: Any) -> bool:
    """Return whether the live value contains all of the desired one; it may contain more."""
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(covers(live.get(key), desired[key]) for key in desired)
    if not isinstance(desired, list):
        return same(live, desired)
    found = live if isinstance(live, list) else []  # the API server omits an empty list
    if desired and isinstance(desired[0], dict) and "name" in desired[0]:
        by_name = {item["name"]: item for item in found}
        return all(covers(by_name.get(item["name"]), item) for item in desired)
    return not desired or (len(found) == len(desired) and all(map(covers, found, desired)))


def cluster_rules(name: str = NAME, *, create: bool = True) -> list[JsonObject]:
    """Return the ClusterRole rules that `Registration` needs, for its own two objects.

    Without `create` where the suite operator creates and deletes them: deleted ones stay deleted.
    """
    return [
        {
            "apiGroups": [GROUP],
            "resources": [MUTATING.plural, VALIDATING.plural],
            "resourceNames": [name],
            "verbs": ["get", "create", "patch"] if create else ["get", "patch"],
        }
    ]


def namespace_rules(secret: str) -> list[JsonObject]:
    """Return the rules of the Role in the operator's namespace that `SecretStore` needs."""
    return [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get", "patch"]},
        # RBAC cannot restrict `create` by name.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
