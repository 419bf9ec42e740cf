"""Tells the API server to ask us: keeps the two webhook configurations of an installation right.

Called by `webhooks` every few seconds; the objects are built by a pure function that `manifests`
can use as well. Scoped so that an outage of ours blocks nothing but creating and changing objects
of our kinds: no subresources, no deletions, and no changes to objects that are being deleted.
"""

import base64
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from quintet.admission.patch import same
from quintet.admission.review import Admission
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
"""For a process outside the cluster, so that it does not take over what is installed inside."""
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ByService:
    """The server is reached through a Service of the cluster."""

    namespace: str
    name: str
    port: int = 443

    def client_config(self, path: str) -> JsonObject:
        """Where to send reviews."""
        service = {"namespace": self.namespace, "name": self.name, "port": self.port, "path": path}
        return {"service": service}


@dataclass(frozen=True, slots=True)
class ByUrl:
    """The server is reached at an address that the API server can connect to by itself."""

    base: str

    def client_config(self, path: str) -> JsonObject:
        """Where to send reviews."""
        return {"url": f"{self.base}{path}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How the API server reaches us, and for which namespaces it asks."""

    at: ByService | ByUrl
    name: str = NAME
    inject_ca_from: str = ""
    """`namespace/certificate` of cert-manager, which then keeps the caBundle."""
    namespace_selector: JsonObject | None = None


def configurations(
    endpoint: Endpoint, admissions: Iterable[Admission], bundle: bytes | None
) -> list[tuple[Resource, JsonObject]]:
    """Both configurations, complete; a kind without defaults has no mutating webhook."""
    declared = tuple(admissions)
    defaulting = tuple(each for each in declared if each.default is not None)
    wanted = []
    for resource, verb, chosen in ((MUTATING, "mutate", defaulting), (VALIDATING, "validate", declared)):
        webhooks = [_webhook(endpoint, verb, each, bundle) for each in chosen]
        # What is applied no longer shows by the digest being another, what was changed by looking at it.
        annotations = {APPLIED: digest({"webhooks": webhooks})}
        if endpoint.inject_ca_from:
            annotations[INJECT_CA_FROM] = endpoint.inject_ca_from
        labels = {"app.kubernetes.io/part-of": "quintet"}
        metadata = {"name": endpoint.name, "annotations": annotations, "labels": labels}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        wanted.append((resource, {**body, "webhooks": webhooks}))
    return wanted


def _webhook(endpoint: Endpoint, verb: str, admission: Admission, bundle: bytes | None) -> JsonObject:
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
        # The last thing that happens to an object is the removal of a finalizer, and that is a change.
        "matchConditions": [
            {"name": "not-deleting", "expression": "!has(object.metadata.deletionTimestamp)"},
        ],
    }
    selectors = [endpoint.namespace_selector, admission.validates_in if verb == "validate" else None]
    if chosen := [selector for selector in selectors if selector is not None]:
        webhook["namespaceSelector"] = _both(*chosen)
    return webhook


def _both(*selectors: JsonObject) -> JsonObject:
    """One selector of what all of them select; a label that two of them ask for is asked for twice."""
    asked = [
        {"key": key, "operator": "In", "values": [value]}
        for selector in selectors
        for key, value in selector.get("matchLabels", {}).items()
    ]
    asked += [entry for selector in selectors for entry in selector.get("matchExpressions", ())]
    return {"matchExpressions": asked} if len(selectors) > 1 else selectors[0]


class Registration:
    """The webhook configurations of one installation, on one API server.

    Give it the client of the manager, so that only the leader writes: replicas of two versions
    would undo each other's work during an upgrade.
    """

    def __init__(self, client: Client, endpoint: Endpoint, admissions: Iterable[Admission]) -> None:
        self._client = client.with_manager("quintet-webhooks")
        self._endpoint = endpoint
        self._admissions = tuple(admissions)

    async def ensure(self, bundle: bytes | None) -> bool:
        """Write what differs, and nothing else; False if that is for the leader to do."""
        for resource, wanted in configurations(self._endpoint, self._admissions, bundle):
            key = ObjectKey("", self._endpoint.name)
            try:
                live: JsonObject = await self._client.get(resource, key, dict[str, Any])
            except NotFound:
                live = {}
            if covers(live, wanted) or not (live or wanted["webhooks"]):
                continue
            try:
                await self._client.apply(resource, key, wanted, Object)
            except WriteFenced:
                # The leader does it, long before a certificate is served that needs it (`Policy.lead`).
                return False
            log.info("Webhooks registered", extra={"configuration": f"{resource.kind}/{key}"})
        return True

    async def remove(self) -> None:
        """Take both away, so that nobody is sent to a server that has stopped."""
        for resource in (MUTATING, VALIDATING):
            try:
                await self._client.delete(resource, ObjectKey("", self._endpoint.name))
            except NotFound:
                continue


def covers(live: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; what the server or others added does not matter."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(covers(live.get(key), wanted[key]) for key in wanted)
    if not isinstance(wanted, list):
        return same(live, wanted)
    found = live if isinstance(live, list) else []  # the server leaves an empty list out
    if wanted and isinstance(wanted[0], dict) and "name" in wanted[0]:
        by_name = {item["name"]: item for item in found}
        return all(covers(by_name.get(item["name"]), item) for item in wanted)
    return not wanted or (len(found) == len(wanted) and all(map(covers, found, wanted)))


def cluster_rules(name: str = NAME, *, create: bool = True) -> list[JsonObject]:
    """What `Registration` may do, as rules of a ClusterRole; only to our own two objects.

    Without `create` where somebody else makes and removes them: what was removed then stays so.
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
    """What `SecretStore` may do, as rules of a Role in the operator's namespace."""
    return [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["get", "patch"]},
        # A creation by POST has no name yet that a rule could ask for.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
    ]
