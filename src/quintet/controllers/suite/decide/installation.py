"""The objects that an installation consists of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.apis.resources import CustomResource
from quintet.apis.suite import QuintetSpec

OPERATOR: Final = "quintet-operator"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
ACCOUNT_UID: Final = "quintet.dev/service-account-uid"
"""Annotation of pods: tokens belong to this uid, so a ServiceAccount created again needs new pods."""
SELECTOR: Final = f"{MANAGED_BY}={OPERATOR}"
"""Label selector of the operator's objects."""

_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
NAMESPACES: Final = Resource("", "v1", "Namespace", "namespaces", False)
DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments")
MUTATING: Final = Resource(
    _ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
)
VALIDATING: Final = Resource(
    _ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
)
WEBHOOKS: Final = (MUTATING, VALIDATING)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "ServiceAccount", "serviceaccounts")
OWNED: Final = (
    SERVICE_ACCOUNTS,
    Resource(_RBAC, "v1", "ClusterRole", "clusterroles", False),
    Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource(_RBAC, "v1", "Role", "roles"),
    Resource(_RBAC, "v1", "RoleBinding", "rolebindings"),
    Resource(_ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False),
    Resource(
        _ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False
    ),
    *WEBHOOKS,
    Resource("", "v1", "Service", "services"),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    DEPLOYMENTS,
)
"""Types that the operator creates and deletes, in creation order. CRDs are not among them."""
IN_WATCHED_NAMESPACES: Final = ("Role", "RoleBinding")
"""Kinds of which there are objects in the namespaces that controllers watch, besides the operator's own."""
BY_KIND: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (*OWNED, CRDS)}


@dataclass(frozen=True, slots=True)
class Part:
    """One process: its controllers and every object that it needs."""

    name: str
    controllers: tuple[str, ...]
    objects: tuple[JsonObject, ...]
    """In creation order, without the Deployment."""
    deployment: JsonObject
    requirements: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names of the CRDs and policies that each of its controllers needs."""

    def is_blocked(self, missing: Collection[str]) -> bool:
        """Return whether none of its controllers could work, because CRDs or policies are missing."""
        needs = self.requirements.values()
        return bool(needs) and all(not names.isdisjoint(missing) for names in needs)

    @property
    def image(self) -> str:
        """Image of the Deployment."""
        return str(self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])

    def bind_account(self, uids: Mapping[ObjectKey, str]) -> JsonObject:
        """Return the Deployment, whose pods are replaced when their ServiceAccount gets another uid."""
        spec = self.deployment["spec"]
        template = spec["template"]
        namespace = self.deployment["metadata"]["namespace"]
        uid = uids.get(ObjectKey(namespace, template["spec"]["serviceAccountName"]))
        if uid is None:
            return self.deployment
        metadata = template["metadata"]
        annotations = {**metadata.get("annotations", {}), ACCOUNT_UID: uid}
        bound = {**template, "metadata": {**metadata, "annotations": annotations}}
        return {**self.deployment, "spec": {**spec, "template": bound}}

    @property
    def webhooks(self) -> ObjectKey | None:
        """The ValidatingWebhookConfiguration, which is filled in last when webhooks are registered."""
        return next((key_of(body) for body in self.objects if resource_of(body) == VALIDATING), None)

    @property
    def replicas(self) -> int:
        """Replicas of the Deployment."""
        return int(self.deployment["spec"]["replicas"])


@dataclass(frozen=True, slots=True)
class Installation:
    """All objects for a spec."""

    definitions: tuple[JsonObject, ...]
    policies: tuple[JsonObject, ...]
    parts: tuple[Part, ...]
    unknown: tuple[str, ...] = ()
    """Controllers in the spec that this version does not have."""
    idle: Mapping[str, tuple[CustomResource, ...]] = field(default_factory=dict)
    """The kinds of each controller that the spec does not name."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces that the controllers watch."""

    everywhere: bool = True
    namespaces: tuple[str, ...] = ()
    """If not everywhere: the names from the spec and those that its selector matches."""
    missing: tuple[str, ...] = ()
    """Those of `namespaces` that do not exist or are being deleted: they cannot have Roles."""


ALL_NAMESPACES: Final = Scope()

Images = Mapping[str, str]
"""Images to run instead of the desired ones, by controller, after failed rollouts."""


class Installer(Protocol):
    """Builds the installation for a spec, fallback images and the namespaces that the spec selects."""

    def __call__(self, spec: QuintetSpec, images: Images, scope: Scope | None = None) -> Installation:
        """Return all objects; without `scope`, the namespaces that the spec names exist."""
        ...


def resource_of(body: JsonObject) -> Resource:
    """Return the resource type of a manifest."""
    return BY_KIND[body["kind"]]


def key_of(body: JsonObject) -> ObjectKey:
    """Return the key of a manifest."""
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])
