"""The suite operator itself: what an administrator installs, and nothing that it installs by itself.

Called by `files`, `helm`, `olm` and `quintet install`. Its role is the union of the roles that it makes and
of the rights to make them, each for the names that they are for. There is no `escalate` and no `bind`,
and it may not delete definitions.
"""

from collections.abc import Iterable, Sequence

from quintet.apis.meta import JsonObject, Resource
from quintet.apis.resources import CustomResource
from quintet.apis.suite import NAME, QUINTET, QuintetSpec, Topology
from quintet.components import Component
from quintet.controllers.suite.decide.installation import CRDS, OWNED, key_of
from quintet.controllers.suite.rbac import PERMISSIONS
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import QUINTET as USUAL
from quintet.manifests.installation import Flavour, installer, objects
from quintet.manifests.manager import namespace
from quintet.manifests.process import HEALTH, Process
from quintet.manifests.rbac import (
    admin_roles,
    lease_rules,
    optional_roles,
    policy_rule,
    service_account_with_roles,
    user_roles,
    without_aggregation,
)
from quintet.manifests.union import union

_SEE, _ACT = ["list", "watch", "create"], ["get", "patch", "delete"]


def operator(components: Sequence[Component], flavour: Flavour = USUAL) -> list[JsonObject]:
    """Every object, in the order of making."""
    process = operator_process(flavour)
    offered = flavour.offered(components)
    kinds = [kind for component in offered for kind in component.kinds]
    return [
        namespace(flavour.namespace),
        custom_resource_definition(QUINTET),
        *service_account_with_roles(
            flavour.operator, flavour.namespace, *operator_rules(components, flavour)
        ),
        *user_facing_roles(kinds),
        *optional_roles(offered),
        processes.metrics_service(process),
        processes.deployment(process),
        processes.budget(process),
        processes.network_policy(process),
    ]


def user_facing_roles(kinds: Iterable[CustomResource]) -> list[JsonObject]:
    """Roles for people. They are not the operator's to make, or it would have to hold all of them.

    Whoever may write the Quintet decides what runs with our rights, so no role takes that in by itself.
    """
    declared = tuple(kinds)
    viewer, editor = user_roles([QUINTET])
    return [viewer, without_aggregation(editor), *user_roles(declared), *admin_roles(declared)]


def operator_process(flavour: Flavour = USUAL, log_level: str = "info") -> Process:
    """What the operator's own Deployment runs."""
    flags = [f"--health-address=0.0.0.0:{HEALTH}", f"--log-level={log_level}"]
    if flavour.name != USUAL.name:
        flags.append(f"--flavour={flavour.name}")
    return Process(
        name=flavour.operator,
        namespace=flavour.namespace,
        image=flavour.image,
        args=("operator", *flags),
        variables={"QUINTET_IMAGE": flavour.image},
        webhooks=False,
    )


def quintet_object(flavour: Flavour = USUAL, spec: JsonObject | None = None) -> JsonObject:
    """The object that makes the operator begin."""
    wanted: JsonObject = {"controllers": list(flavour.controllers)} if flavour.controllers else {}
    return {
        "apiVersion": QUINTET.resource.api_version,
        "kind": QUINTET.resource.kind,
        "metadata": {"name": NAME},
        "spec": wanted | (spec or {}),
    }


def operator_rules(
    components: Sequence[Component], flavour: Flavour = USUAL
) -> tuple[list[JsonObject], list[JsonObject]]:
    """What it may do in the whole cluster, and what in its own namespace."""
    made = _all_that_it_makes(components, flavour)
    cluster = [
        *map(policy_rule, PERMISSIONS),
        *_granted(made, "ClusterRole"),
        *_making(made, namespaced=False),
    ]
    names = sorted({key_of(each).name for each in made if each["kind"] == CRDS.kind})
    cluster.append(_verbs(CRDS, ["get", "patch"], names))
    cluster.append(_verbs(CRDS, _SEE))
    own = [*_granted(made, "Role"), *_making(made, namespaced=True)]
    own += lease_rules(flavour.operator, *flavour.instances(components))
    return union(cluster), union(own)


def _all_that_it_makes(components: Sequence[Component], flavour: Flavour) -> list[JsonObject]:
    """In any topology, so that changing it needs no other rights."""
    install = installer(components, flavour)
    wanted = [install(QuintetSpec(topology=topology), {}) for topology in Topology]
    return [each for installation in wanted for each in objects(installation)]


def _granted(made: Iterable[JsonObject], kind: str) -> list[JsonObject]:
    return [each for body in made if body["kind"] == kind for each in body["rules"]]


def _making(made: Sequence[JsonObject], *, namespaced: bool) -> list[JsonObject]:
    """To make, change and remove exactly these objects; what a name cannot limit is not limited."""
    rules = []
    for resource in OWNED:
        names = sorted({key_of(each).name for each in made if each["kind"] == resource.kind})
        if resource.namespaced is namespaced and names:
            rules += [_verbs(resource, _SEE), _verbs(resource, _ACT, names)]
    return rules


def _verbs(resource: Resource, verbs: list[str], names: Sequence[str] = ()) -> JsonObject:
    found: JsonObject = {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": verbs}
    return {**found, "resourceNames": list(names)} if names else found
