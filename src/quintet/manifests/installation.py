"""The objects of an installation, from the spec of a Quintet. Pure.

The suite operator applies them, and the installation files are generated from them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from quintet.admission.registration import cluster_rules
from quintet.apis.meta import JsonObject
from quintet.apis.resources import CustomResource
from quintet.apis.suite import QUINTET as OWN_KIND
from quintet.apis.suite import Eventing, JsonServers, QuintetSpec, Topology, Tuning
from quintet.apis.suite.types import Metrics, NetworkPolicies
from quintet.components import INSTANCE, Component
from quintet.controllers.suite.decide.installation import (
    MANAGED_BY,
    OPERATOR,
    Images,
    Installation,
    Installer,
    Part,
    Scope,
)
from quintet.controllers.suite.decide.scope import find_scope
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.discovery import PORT as DISCOVERY
from quintet.manifests.policy import policies, warnings
from quintet.manifests.process import (
    IMAGE,
    PLAIN_METRICS,
    RESOURCES,
    SECURE_METRICS,
    MetricsMode,
    ProcessManifest,
)
from quintet.manifests.rbac import (
    SYSTEM_NAMESPACE,
    access_review_rules,
    component_rules,
    namespace_roles,
    process_rules,
    scoped_rules,
    service_account_with_roles,
)

COMPONENT = "app.kubernetes.io/component"
_MANAGED = {MANAGED_BY: OPERATOR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """The names of an installation's objects, and the controllers that it offers."""

    name: str = "quintet"
    namespace: str = SYSTEM_NAMESPACE
    operator: str = OPERATOR
    whole: str = INSTANCE
    """Name of the process with all controllers."""
    part: str = f"{INSTANCE}-{{}}"
    """Name pattern of the processes with one controller each."""
    controllers: tuple[str, ...] = ()
    """Names of the offered controllers; empty for all."""
    image: str = IMAGE
    progress_seconds: int = 180
    """Seconds without progress after which a rollout has failed."""

    def offered_components(self, components: Sequence[Component]) -> list[Component]:
        """Return the components that it offers."""
        return [each for each in components if not self.controllers or each.name in self.controllers]

    def instances(self, components: Sequence[Component]) -> list[str]:
        """Return the names of all its possible processes."""
        return [self.whole, *(self.part.format(each.name) for each in self.offered_components(components))]


QUINTET = Flavour()
KIAGNOSE = Flavour(
    name="kiagnose",
    namespace="kiagnose",
    operator="kiagnose-operator",
    whole="kiagnose-controllers",
    part="kiagnose-{}-controller",
    controllers=("checkup",),
)
FLAVOURS = {flavour.name: flavour for flavour in (QUINTET, KIAGNOSE)}


def installer(components: Sequence[Component], flavour: Flavour = QUINTET) -> Installer:
    """Return a function that maps a spec to the objects of an installation."""
    offered = {each.name: each for each in flavour.offered_components(components)}

    def install(spec: QuintetSpec, images: Images, scope: Scope | None = None) -> Installation:
        scope = scope or find_scope(spec, None)
        asked = list(offered) if spec.controllers is None else [str(name) for name in spec.controllers]
        selected = [component for name, component in offered.items() if name in asked]
        # Nothing runs while the selector matches no namespace.
        chosen = selected if scope.everywhere or scope.namespaces else []
        groups = [[each] for each in chosen] if spec.topology is Topology.SEPARATE else [chosen]
        idle = [component for component in offered.values() if component not in chosen]
        requirements = [requirement for component in selected for requirement in component.user_requirements]
        rules = [*policies(requirements), *warnings(idle, chosen, scope)]
        return Installation(
            definitions=tuple(
                _with_managed_by_label(custom_resource_definition(kind))
                for kind in (OWN_KIND, *_kinds(selected))
            ),
            policies=tuple(map(_with_managed_by_label, rules)),
            parts=tuple(_part(group, spec, images, flavour, scope) for group in groups if group),
            unknown=tuple(name for name in asked if name not in offered),
            idle={name: component.kinds for name, component in offered.items() if name not in asked},
        )

    return install


def _kinds(components: Sequence[Component]) -> list[CustomResource]:
    return [kind for component in components for kind in component.kinds]


def objects(made: Installation) -> list[JsonObject]:
    """Return all objects of an installation, in the order of their creation."""
    parts = [each for part in made.parts for each in (*part.objects, part.deployment)]
    return [*made.definitions, *made.policies, *parts]


def _with_managed_by_label(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    return {**body, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), **_MANAGED}}}


def _part(
    group: Sequence[Component], spec: QuintetSpec, images: Images, flavour: Flavour, scope: Scope
) -> Part:
    names = tuple(component.name for component in group)
    alone = spec.topology is Topology.SEPARATE
    name = flavour.part.format(names[0]) if alone else flavour.whole
    tuning = _tuning(spec, names[0]) if alone else Tuning()
    image = next((images[each] for each in names if each in images), spec.image or flavour.image)
    process = ProcessManifest(
        name=name,
        namespace=flavour.namespace,
        image=image,
        args=tuple(_args(name, group, spec, tuning, scope)),
        replicas=tuning.replicas or spec.replicas,
        resources=_resources(spec, tuning),
        variables=dict(_variables(names, spec, image)),
        labels={COMPONENT: names[0] if alone else "controllers", **_MANAGED},
        webhooks=any(component.has_webhooks for component in group),
        discovery=any(component.has_server for component in group),
        metrics=_metrics_mode(spec),
        progress_seconds=flavour.progress_seconds,
        pods=spec.pods,
        services=spec.services,
        budget=spec.pod_disruption_budget,
    )
    account, *roles = _permissions(name, group, flavour.namespace, scope, _metrics_mode(spec))
    account = {**account, "metadata": processes.with_added(account["metadata"], spec.service_accounts)}
    made = [_with_managed_by_label(each) for each in (account, *roles)]
    made += processes.webhook_configurations(process)
    made += [*processes.services(process), processes.metrics_service(process), processes.budget(process)]
    if spec.network_policies is NetworkPolicies.ENABLED:
        made.append(processes.network_policy(process))
    needed = {component.name: _requirements(component) for component in group}
    return Part(name, names, tuple(made), processes.deployment(process), needed)


def _metrics_mode(spec: QuintetSpec) -> MetricsMode:
    return PLAIN_METRICS if spec.metrics is Metrics.PLAIN else SECURE_METRICS


def _requirements(component: Component) -> frozenset[str]:
    crds = (kind.resource.qualified for kind in component.kinds)
    return frozenset((*crds, *(requirement.name for requirement in component.user_requirements)))


def _permissions(
    name: str, group: Sequence[Component], home: str, scope: Scope, metrics: MetricsMode
) -> list[JsonObject]:
    """Return the ServiceAccount of a process with its roles: in the whole cluster, or in some namespaces."""
    inside: list[JsonObject] = []
    if scope.everywhere:
        cluster = component_rules(group)
    else:
        cluster, inside = scoped_rules(group)
    cluster = [*cluster, *cluster_rules(name, create=False)]
    if metrics is SECURE_METRICS:
        cluster += access_review_rules()
    made = service_account_with_roles(name, home, cluster, process_rules(name))
    there = [each for each in scope.namespaces if each not in scope.missing]
    return [*made, *namespace_roles(name, made[0], there, inside)]


def _tuning(spec: QuintetSpec, name: str) -> Tuning:
    found = getattr(spec.settings, name)
    assert isinstance(found, Tuning)
    return found


def _resources(spec: QuintetSpec, tuning: Tuning) -> dict[str, dict[str, str]]:
    chosen = tuning.resources or spec.resources
    if chosen is None:
        return {name: dict(each) for name, each in RESOURCES.items()}
    return {"requests": dict(chosen.requests), "limits": dict(chosen.limits)}


def _args(
    name: str, group: Sequence[Component], spec: QuintetSpec, tuning: Tuning, scope: Scope
) -> Iterator[str]:
    names = [component.name for component in group]
    yield "run"
    yield f"--controllers={','.join(names)}"
    yield f"--instance={name}"
    yield from processes.address_args(_metrics_mode(spec))
    yield f"--log-level={(tuning.log_level or spec.log_level).lower()}"
    if any(component.has_server for component in group):
        yield f"--discovery-address=0.0.0.0:{DISCOVERY}"
    if not scope.everywhere:
        yield f"--namespace={','.join(scope.namespaces)}"
    if tuning.workers is not None:
        yield f"--workers={tuning.workers}"
    if "eventing" in names:
        yield from _eventing_args(spec.settings.eventing)


def _eventing_args(eventing: Eventing) -> Iterator[str]:
    if eventing.config_errors is not None:
        yield f"--eventing-config-errors={eventing.config_errors.value}"
    if eventing.refused_networks:
        yield f"--eventing-refused-networks={','.join(eventing.refused_networks)}"
    if eventing.allowed_networks:
        yield f"--eventing-allowed-networks={','.join(eventing.allowed_networks)}"


def _variables(names: Sequence[str], spec: QuintetSpec, image: str) -> Iterator[tuple[str, str]]:
    servers: JsonServers = spec.settings.jsonserver
    if "jsonserver" in names and servers.image:
        yield "QUINTET_JSON_SERVER_IMAGE", servers.image
    if "eventing" in names:
        # Publishers and dispatchers run the version of the controller that creates them.
        yield "QUINTET_EVENTING_IMAGE", spec.settings.eventing.image or image
        if spec.settings.eventing.nats_image:
            yield "QUINTET_NATS_IMAGE", spec.settings.eventing.nats_image


def in_namespace(flavour: Flavour, namespace: str | None, image: str = "") -> Flavour:
    """Return the flavour with another namespace or image, where these are given."""
    return replace(flavour, namespace=namespace or flavour.namespace, image=image or flavour.image)
