"""What an installation consists of, as `manifests` makes it and the controller brings it about. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quintet.apis.meta import JsonObject, ObjectKey, Resource
from quintet.apis.suite import QuintetSpec

OPERATOR: Final = "quintet-operator"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
SELECTOR: Final = f"{MANAGED_BY}={OPERATOR}"
"""Finds what the operator made."""

_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
DEPLOYMENTS: Final = Resource("apps", "v1", "Deployment", "deployments")
MUTATING: Final = Resource(
    _ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
)
VALIDATING: Final = Resource(
    _ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
)
WEBHOOKS: Final = (MUTATING, VALIDATING)
OWNED: Final = (
    Resource("", "v1", "ServiceAccount", "serviceaccounts"),
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
"""Types that the operator makes and removes, in the order of making. Definitions are not among them."""
BY_KIND: Final[Mapping[str, Resource]] = {resource.kind: resource for resource in (*OWNED, CRDS)}


@dataclass(frozen=True, slots=True)
class Part:
    """One process: the controllers in it, and every object that it needs."""

    name: str
    controllers: tuple[str, ...]
    objects: tuple[JsonObject, ...]
    """In the order of making; not the Deployment."""
    deployment: JsonObject

    @property
    def image(self) -> str:
        """What it is to run."""
        return str(self.deployment["spec"]["template"]["spec"]["containers"][0]["image"])

    @property
    def webhooks(self) -> ObjectKey | None:
        """The configuration that tells when its webhooks are registered: the one that is filled in last."""
        return next((key_of(body) for body in self.objects if resource_of(body) == VALIDATING), None)

    @property
    def replicas(self) -> int:
        """How many pods there are to be."""
        return int(self.deployment["spec"]["replicas"])


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that a spec asks for."""

    definitions: tuple[JsonObject, ...]
    policies: tuple[JsonObject, ...]
    parts: tuple[Part, ...]
    unknown: tuple[str, ...] = ()
    """Controllers that are asked for and that this version does not have."""


Images = Mapping[str, str]
"""Controller → the image to run instead of the wanted one, where that did not come up."""
Installer = Callable[[QuintetSpec, Images], Installation]
"""Made by `manifests.installation`, handed to the controller by `cli`."""


def resource_of(body: JsonObject) -> Resource:
    """The type of an object that is to be made."""
    return BY_KIND[body["kind"]]


def key_of(body: JsonObject) -> ObjectKey:
    """Where an object is to be."""
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])
