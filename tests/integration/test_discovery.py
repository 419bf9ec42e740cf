"""API discovery and OpenAPI documents of a real API server."""

import pytest

from kit.eventually import eventually
from kit.kinds.widgets import WIDGETS
from quintet.apis.casconfig.kinds import as_text, resolve_kind
from quintet.apis.casconfig.template import POD, describes, pod_place
from quintet.apis.meta import Resource
from quintet.kube.client import Client
from quintet.kube.discovery import list_resources, read_openapi

DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")
PODS = Resource("", "v1", "Pod", "pods")
NODES = Resource("", "v1", "Node", "nodes", False)
TEMPLATE = ("spec", "template", "spec")


@pytest.fixture(scope="module")
async def served(widgets: Client) -> tuple[Resource, ...]:
    return await list_resources(widgets)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("Deployment", DEPLOYMENTS, id="kind of one group"),
        pytest.param("Pod", PODS, id="core kind"),
        pytest.param("v1/Pod", PODS, id="core kind with version"),
        pytest.param("apps/v1/Deployment", DEPLOYMENTS, id="kind with group and version"),
        pytest.param("Widget", WIDGETS, id="a custom resource"),
        pytest.param("Node", NODES, id="cluster-scoped kind"),
        pytest.param("apps/v2/Deployment", "no kind", id="version that is not served"),
        pytest.param("batch/v1/Deployment", "no kind", id="kind with wrong group"),
        pytest.param("Deployments", "no kind", id="plural instead of kind"),
        pytest.param("a/b/c/Deployment", "neither Kind nor", id="too many parts"),
        pytest.param("Binding", "no kind", id="kind without watch and patch"),
        pytest.param("Event", "may mean events.k8s.io/v1/Event, v1/Event", id="kind of several groups"),
    ],
)
async def test_kind_name_is_resolved_with_api_discovery(served, name, want):
    found = resolve_kind(name, served)
    if isinstance(want, str):
        assert found.resource is None
        assert want in found.problem
    else:
        assert found.resource == want


async def test_qualified_kind_name_resolves_to_its_resource(served):
    assert [each for each in served if resolve_kind(as_text(each), served).resource != each] == []


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        (DEPLOYMENTS, TEMPLATE),
        (Resource("apps", "v1", "StatefulSet", "statefulsets"), TEMPLATE),
        (Resource("apps", "v1", "DaemonSet", "daemonsets"), TEMPLATE),
        (Resource("batch", "v1", "Job", "jobs"), TEMPLATE),
        (Resource("batch", "v1", "CronJob", "cronjobs"), ("spec", "jobTemplate", "spec", "template", "spec")),
        (PODS, POD),
        (Resource("", "v1", "ConfigMap", "configmaps"), None),
        (WIDGETS, None),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
async def test_pod_template_path_is_found_in_openapi_document(widgets, resource, want):
    async def assert_published() -> None:
        found = await read_openapi(widgets, resource)
        assert describes(found, resource)
        assert pod_place(found, resource) == want

    await eventually(assert_published)  # the schema of a new CRD is published seconds later
