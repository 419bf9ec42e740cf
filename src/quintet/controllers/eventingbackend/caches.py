"""Caches of a backend's children, Subscriptions, autoscalers and other backends."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import Object, ObjectKey, Resource, Struct
from quintet.apis.subscription import SUBSCRIPTIONS, Subscription
from quintet.controllers.eventingbackend.decide import desired, server
from quintet.controllers.eventingbackend.decide.status import WorkloadState, WorkloadStatus
from quintet.eventing.settings import VARIABLE
from quintet.runtime.builder import Builder
from quintet.runtime.cache import Store
from quintet.runtime.ownership import Child, View

AUTOSCALERS = Resource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
BY_NAMESPACE: Final = "namespace"
BY_SERVER: Final = "server"
_BY_TARGET: Final = "target"
_PLAIN: Final = (
    desired.SERVICES,
    desired.SERVICE_ACCOUNTS,
    desired.ROLES,
    desired.ROLE_BINDINGS,
    desired.BUDGETS,
    server.NETWORK_POLICIES,
)


class _Variable(Struct, frozen=True):
    name: str = ""
    value: str = ""


class _Container(Struct, frozen=True):
    args: tuple[str, ...] = ()
    env: tuple[_Variable, ...] = ()


class _SecretVolume(Struct, frozen=True):
    secret_name: str = ""


class _Volume(Struct, frozen=True):
    secret: _SecretVolume | None = None


class _PodSpec(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


class _Template(Object, frozen=True):
    spec: _PodSpec = _PodSpec()


class _Requests(Struct, frozen=True):
    requests: dict[str, str] | None = None


class _ClaimSpec(Struct, frozen=True):
    resources: _Requests = _Requests()


class _Claim(Struct, frozen=True):
    spec: _ClaimSpec = _ClaimSpec()


class _WorkloadSpec(Struct, frozen=True):
    replicas: int = 0
    template: _Template = _Template()
    volume_claim_templates: tuple[_Claim, ...] = ()


class WorkloadView(View, frozen=True):
    """The fields that are read of a Deployment or StatefulSet."""

    spec: _WorkloadSpec = _WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class _Target(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _AutoscalerSpec(Struct, frozen=True):
    scale_target_ref: _Target = _Target()


class Autoscaler(Object, frozen=True):
    """The fields that are read of a HorizontalPodAutoscaler."""

    spec: _AutoscalerSpec = _AutoscalerSpec()

    @property
    def target(self) -> ObjectKey:
        """Key of the Deployment that it scales."""
        named = self.spec.scale_target_ref
        return ObjectKey(self.metadata.namespace, named.name if named.kind == "Deployment" else "")


@dataclass(frozen=True, slots=True)
class BackendCaches:
    """The caches of the controller, besides that of backends."""

    deployments: Store[Child[WorkloadState]]
    servers: Store[Child[WorkloadState]]
    subscriptions: Store[Subscription]
    autoscalers: Store[Autoscaler]

    def rollout(self, key: ObjectKey) -> WorkloadState | None:
        """Return the observed state of a Deployment."""
        child = self.deployments.get(key)
        return child.state if child is not None else None

    def is_autoscaled(self, key: ObjectKey) -> bool:
        """Return whether an autoscaler targets a Deployment."""
        return bool(self.autoscalers.by_index(_BY_TARGET, str(key)))


def workload_state(view: WorkloadView) -> WorkloadState:
    """Return the observed state of a Deployment or StatefulSet."""
    spec, pod = view.spec, view.spec.template.spec
    settings = (each.value for one in pod.containers for each in one.env if each.name == VARIABLE)
    secrets = (volume.secret.secret_name for volume in pod.volumes if volume.secret is not None)
    sizes = (claim.spec.resources.requests or {} for claim in spec.volume_claim_templates)
    return WorkloadState(
        generation=view.metadata.generation,
        replicas=spec.replicas,
        status=view.status,
        secret=next(secrets, ""),
        secret_version=spec.template.metadata.annotations.get(desired.SECRET_VERSION, ""),
        settings=next(settings, "").replace("$$", "$"),
        scaled=any(entry.subresource == "scale" for entry in view.metadata.managed_fields),
        claim_size=next((size.get("storage", "") for size in sizes), ""),
        servers=max((server.configured_servers(one.args) for one in pod.containers), default=1),
    )


def namespaces(obj: Object) -> Iterable[str]:
    """Index an object by its namespace."""
    return (obj.metadata.namespace,)


def watch(builder: Builder[EventingBackend]) -> BackendCaches:
    """Watch everything that a backend depends on."""
    for resource in _PLAIN:
        builder.owns(resource, labels=desired.SELECTOR)
    deployments = builder.owns(
        desired.DEPLOYMENTS, WorkloadView, state=workload_state, labels=desired.SELECTOR
    )
    servers = builder.owns(server.STATEFUL_SETS, WorkloadView, state=workload_state, labels=desired.SELECTOR)

    def backends_here(changed: Subscription) -> Iterable[ObjectKey]:
        return [each.key for each in builder.primary.by_index(BY_NAMESPACE, changed.metadata.namespace)]

    def owner_of_target(changed: Autoscaler) -> Iterable[ObjectKey]:
        child: Child[Any] | None = deployments.get(changed.target)
        return (ObjectKey(changed.metadata.namespace, child.owner_name),) if child is not None else ()

    subscriptions = builder.watches(
        SUBSCRIPTIONS, Subscription, to=backends_here, indexes={BY_NAMESPACE: namespaces}
    )
    autoscalers = builder.watches(
        AUTOSCALERS, Autoscaler, to=owner_of_target, indexes={_BY_TARGET: lambda each: (str(each.target),)}
    )
    return BackendCaches(deployments, servers, subscriptions, autoscalers)
