"""The fields of children that the controller of the Quintet reads."""

from quintet.apis.meta import Struct
from quintet.controllers.suite.decide.rollout import DeploymentStatus, Rollout
from quintet.runtime.ownership import View


class _Container(Struct, frozen=True):
    image: str = ""


class _PodSpec(Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _Template(Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DeploymentSpec(Struct, frozen=True):
    replicas: int = 1
    template: _Template = _Template()


class PartDeploymentView(View, frozen=True):
    """The fields of a Deployment that the controller reads."""

    spec: _DeploymentSpec = _DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class WebhooksView(View, frozen=True):
    """The fields of a webhook configuration that the controller reads."""

    webhooks: tuple[Struct, ...] = ()


def rollout_of(view: PartDeploymentView) -> Rollout:
    """Return the progress of a Deployment."""
    containers = view.spec.template.spec.containers
    image = containers[0].image if containers else ""
    return Rollout(view.metadata.generation, image, view.spec.replicas, view.status)


def has_webhooks(view: WebhooksView) -> bool:
    """Return whether the API server calls any webhook."""
    return bool(view.webhooks)
