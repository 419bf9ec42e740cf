"""The objects of the suite operator, which installs everything else.

Its role contains the roles that it creates and the permissions to manage their objects by name. It contains
neither `escalate` nor `bind`, and the operator may not delete CRDs.
"""

from collections.abc import Iterable, Sequence

from quintet.apis.meta import JsonObject, Resource
from quintet.apis.resources import CustomResource
from quintet.apis.suite import NAME, QUINTET, QuintetSpec, Topology
from quintet.components import Component
from quintet.controllers.suite.decide.installation import ALL_NAMESPACES, CRDS, OWNED, Scope, key_of
from quintet.controllers.suite.rbac import PERMISSIONS
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import QUINTET as USUAL
from quintet.manifests.installation import Flavour, installer, objects
from quintet.manifests.manager import namespace
from quintet.manifests.process import SECURE_METRICS, MetricsMode, ProcessManifest
from quintet.manifests.rbac import (
    admin_roles,
    lease_rules,
    metrics_reader_role,
    optional_roles,
    policy_rule,
    service_account_with_roles,
    user_roles,
    without_aggregation,
)
from quintet.manifests.union import union

_ANY_NAMESPACE = "*"
"""Stands for a namespace that controllers watch: their Roles there have the same names everywhere."""
_BY_TYPE, _BY_NAME = ["list", "watch", "create"], ["get", "patch", "delete"]


def operator(components: Sequence[Component], flavour: Flavour = USUAL) -> list[JsonObject]:
    """Return all objects, in the order of their creation."""
    process = operator_process(flavour)
    offered = flavour.offered_components(components)
    kinds = [kind for component in offered for kind in component.kinds]
    return [
        namespace(flavour.namespace),
        custom_resource_definition(QUINTET),
        *service_account_with_roles(
            flavour.operator, flavour.namespace, *operator_rules(components, flavour)
        ),
        *user_facing_roles(kinds),
        *optional_roles(offered),
        metrics_reader_role(),
        processes.metrics_service(process),
        processes.deployment(process),
        processes.budget(process),
        processes.network_policy(process),
    ]


def user_facing_roles(kinds: Iterable[CustomResource]) -> list[JsonObject]:
    """Return the roles for users. The operator does not create them, or it would need their permissions.

    The editor role of Quintet is not aggregated: whoever may change the Quintet controls our permissions.
    """
    declared = tuple(kinds)
    viewer, editor = user_roles([QUINTET])
    return [viewer, without_aggregation(editor), *user_roles(declared), *admin_roles(declared)]


def operator_process(
    flavour: Flavour = USUAL, log_level: str = "info", metrics: MetricsMode = SECURE_METRICS
) -> ProcessManifest:
    """Return the process of the operator itself."""
    flags = [*processes.address_args(metrics), f"--log-level={log_level}"]
    if flavour.name != USUAL.name:
        flags.append(f"--flavour={flavour.name}")
    return ProcessManifest(
        name=flavour.operator,
        namespace=flavour.namespace,
        image=flavour.image,
        args=("operator", *flags),
        variables={"QUINTET_IMAGE": flavour.image},
        webhooks=False,
        metrics=metrics,
    )


def quintet_object(flavour: Flavour = USUAL, spec: JsonObject | None = None) -> JsonObject:
    """Return the Quintet object, which makes the operator install the controllers."""
    defaults: JsonObject = {"controllers": list(flavour.controllers)} if flavour.controllers else {}
    return {
        "apiVersion": QUINTET.resource.api_version,
        "kind": QUINTET.resource.kind,
        "metadata": {"name": NAME},
        "spec": defaults | (spec or {}),
    }


def operator_rules(
    components: Sequence[Component], flavour: Flavour = USUAL
) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the rules of the operator's ClusterRole, and of the Role in its own namespace."""
    created = _created_objects(components, flavour)
    at_home = [each for each in created if key_of(each).namespace in ("", flavour.namespace)]
    elsewhere = [each for each in created if each not in at_home]
    cluster = [
        *map(policy_rule, PERMISSIONS),
        *_role_rules(created, "ClusterRole"),
        *_role_rules(elsewhere, "Role"),
        *_management_rules(at_home, namespaced=False),
        *_management_rules(elsewhere, namespaced=True),
    ]
    names = sorted({key_of(each).name for each in created if each["kind"] == CRDS.kind})
    cluster.append(_verbs(CRDS, ["get", "patch"], names))
    cluster.append(_verbs(CRDS, _BY_TYPE))
    own = [*_role_rules(at_home, "Role"), *_management_rules(at_home, namespaced=True)]
    own += lease_rules(flavour.operator, *flavour.instances(components))
    own.append({"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]})
    return union(cluster), union(own)


def _created_objects(components: Sequence[Component], flavour: Flavour) -> list[JsonObject]:
    """Return the objects of all topologies and scopes, so that changing them needs no other permissions."""
    install = installer(components, flavour)
    scopes = (ALL_NAMESPACES, Scope(everywhere=False, namespaces=(_ANY_NAMESPACE,)))
    installations = [
        install(QuintetSpec(topology=topology), {}, scope) for topology in Topology for scope in scopes
    ]
    installations.append(install(QuintetSpec(controllers=()), {}))
    return [each for installation in installations for each in objects(installation)]


def _role_rules(made: Iterable[JsonObject], kind: str) -> list[JsonObject]:
    return [each for body in made if body["kind"] == kind for each in body["rules"]]


def _management_rules(made: Sequence[JsonObject], *, namespaced: bool) -> list[JsonObject]:
    """Return rules to manage exactly these objects; RBAC cannot restrict list, watch and create by name."""
    rules = []
    for resource in OWNED:
        names = sorted({key_of(each).name for each in made if each["kind"] == resource.kind})
        if resource.namespaced is namespaced and names:
            rules += [_verbs(resource, _BY_TYPE), _verbs(resource, _BY_NAME, names)]
    return rules


def _verbs(resource: Resource, verbs: list[str], names: Sequence[str] = ()) -> JsonObject:
    found: JsonObject = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": verbs}
    return {**found, "resourceNames": list(names)} if names else found
