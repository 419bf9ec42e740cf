"""Every install method on a real node: install, use, upgrade under load, uninstall.

The methods run one after another on one cluster. For each of them the states come in the order of the fixtures
`installed`, `used`, `upgraded`, `removed`; each test checks one of them. OLM has its own file.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.checkups import a_checkup, create_checkup_namespace
from e2e.kubectl_client import KubectlClient, find_condition
from e2e.statefulclusters import a_cluster, a_headless_service
from kit.cluster.admission_load import REFUSED, TAKEN, Reviews, send_reviews
from kit.cluster.api import Api
from kit.cluster.control_plane import cluster_with_nodes
from kit.cluster.inventory import inventory
from kit.cluster.node_processes import ResponseCounts, send_requests
from kit.eventually import eventually, eventually_true
from kit.install.methods import (
    ByCommand,
    ByCommandWithData,
    ByFiles,
    ByHelm,
    ByKustomize,
    InstallMethod,
    describe_cluster,
)
from kit.install.versions import NEW_FIELD, Version, next_version, this_version
from kit.kinds.eventingbackends import a_backend
from kit.kinds.jsonservers import a_jsonserver
from quintet.components import COMPONENTS
from quintet.local.cluster import Cluster
from quintet.manifests.installation import KIAGNOSE, QUINTET

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(1800)]

SHOP = "shop"
BOOKS = '{"books": [{"id": 1, "title": "One"}]}'
PATIENCE = 500
# Responses may be late on a machine that is busy with the upgrade; that is not a failure.
PATIENT = {
    "name": "json-server",
    "readinessProbe": {"timeoutSeconds": 30},
    "livenessProbe": {"timeoutSeconds": 30},
}
ALL = tuple(COMPONENTS)
WAYS: dict[str, Callable[[KubectlClient, Any], InstallMethod]] = {
    "quintet install": lambda place, helm: ByCommand(place),
    "kustomize": lambda place, helm: ByKustomize(place, controllers=ALL),
    "release files": lambda place, helm: ByFiles(place),
    "Helm": lambda place, helm: ByHelm(place, helm=helm()),
    "Kiagnose flavour": lambda place, helm: ByKustomize(
        place.in_namespace(KIAGNOSE.namespace), flavour=KIAGNOSE, controllers=KIAGNOSE.controllers
    ),
    "quintet uninstall with data": lambda place, helm: ByCommandWithData(place),
}


@dataclass
class Upgrade:
    """Observations during the upgrade."""

    pods: dict[str, int]
    answers: dict[str, int] = field(default_factory=dict)
    right: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    events: str = ""
    """In the namespace of the user."""


@dataclass
class Installation:
    """One install method from installation to removal."""

    way: InstallMethod
    api: Api
    before: Version
    after: Version
    shop: KubectlClient
    found: set[str] = field(default_factory=set)
    """What the cluster held before anything was installed."""

    @property
    def serves_json(self) -> bool:
        return "jsonserver" in self.way.controllers

    async def wait_until_ready(self, version: str) -> None:
        """Wait until every controller of a version is ready."""
        want = {"Available": "True", "Progressing": "False", "Degraded": "False"}

        async def probe() -> None:
            status = (await self.api.get("/apis/quintet.dev/v1alpha1/quintets/quintet")).get("status", {})
            assert {each["type"]: each["status"] for each in status.get("conditions", [])} == want, status
            seen = {each["name"]: (each.get("version"), each.get("ready")) for each in status["components"]}
            assert seen == dict.fromkeys(self.way.controllers, (version, True)), status
            assert status["version"] == version, status

        await self.in_time(probe)

    async def in_time(self, probe: Any) -> Any:
        """Wait for a state; add a description of the cluster to a timeout error."""
        try:
            return await eventually(probe, within=PATIENCE)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{describe_cluster(self.way.system)}") from error

    def pods(self) -> dict[str, int]:
        """Return container restarts of each user pod by name and uid.

        Publishers and dispatchers are excluded, because they run our version, and so are finished pods of Checkups.
        """
        found = self.shop.get("pods", "", "--field-selector=status.phase=Running")["items"]
        return {
            f"{pod['metadata']['name']} {pod['metadata']['uid']}": sum(
                each["restartCount"] for each in pod["status"]["containerStatuses"]
            )
            for pod in found
            if not pod["spec"]["containers"][0]["image"].startswith("quintet.local/quintet:")
        }


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_with_nodes("ways", tmp_path_factory.mktemp("ways")) as started:
        yield started


@pytest.fixture(scope="module")
def after(own: Cluster) -> Version:
    """The next version with its image on the node."""
    version = next_version()
    version.load(own)
    return version


@pytest.fixture(scope="module")
async def administrator(own: Cluster) -> AsyncIterator[Api]:
    async with Api.connect(own.kubeconfig) as connected:
        yield connected


@pytest.fixture(scope="module", params=WAYS.values(), ids=WAYS.keys())
async def installed(
    request: pytest.FixtureRequest,
    own: Cluster,
    after: Version,
    dist: Path,
    administrator: Api,
) -> AsyncIterator[Installation]:
    """Every controller of this version is ready."""
    way = request.param(KubectlClient(own, QUINTET.namespace), lambda: request.getfixturevalue("helm"))
    story = Installation(way, administrator, this_version(dist), after, way.system.in_namespace(SHOP))
    story.found = await inventory(administrator)
    try:
        way.install(story.before)
        await story.wait_until_ready(story.before.version)
        yield story
    finally:
        await remove_everything(story)  # the next method starts without any of its objects


@pytest.fixture(scope="module")
async def used(installed: Installation) -> Installation:
    """A user has a working JsonServer and Checkup in a namespace with restricted pod security."""
    shop = create_checkup_namespace(installed.way.system, SHOP)
    if installed.serves_json:

        def accepted() -> None:
            shop.apply(a_jsonserver("app-books", BOOKS, template={"spec": {"containers": [PATIENT]}}))

        await installed.in_time(accepted)
        shop.wait_for("app-books", "Ready", PATIENCE)
    if "statefulcluster" in installed.way.controllers:
        await create_objects_of_other_kinds(installed)
    await run_checkup(installed, "before")
    return installed


async def create_objects_of_other_kinds(story: Installation) -> None:
    """Create a StatefulCluster with a volume, a backend with its own server, and a CASConfig with a target."""
    shop = story.shop
    policy = {
        "name": "team",
        "include": {"kinds": ["Deployment"], "labels": {"team": "shop"}},
        "values": {"envs": {"LOG_LEVEL": "debug"}},
    }
    config = {"apiVersion": "openebs.io/v1alpha1", "kind": "CASConfig", "metadata": {"name": "logging"}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "casconfig"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "casconfig-workloads",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "casconfig", "namespace": SHOP}],
    }
    items = [
        a_headless_service(),
        a_cluster(replicas=1),
        a_backend("bus", maxBytes="32Mi", dispatcherReplicas=1),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "casconfig"}},
        binding,
        a_deployment("orders", {"team": "shop"}),
        {**config, "spec": {"policies": [policy]}},
    ]

    def accepted() -> None:
        shop.apply({"apiVersion": "v1", "kind": "List", "items": items})

    await story.in_time(accepted)
    for each in ("statefulcluster/records", "evb/bus", "casconfig/logging"):
        shop.kubectl("wait", each, "--for=condition=Ready", f"--timeout={PATIENCE}s")


def a_deployment(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """A Deployment without replicas."""
    container = {"name": "main", "image": "quintet.local/json-server:0.17.4"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


async def run_checkup(story: Installation, name: str) -> None:
    """Create a Checkup and wait until it succeeds."""

    def accepted() -> None:
        story.shop.apply(a_checkup(name))

    await story.in_time(accepted)
    story.shop.kubectl("wait", f"checkup/{name}", "--for=condition=Succeeded", f"--timeout={PATIENCE}s")


@pytest.fixture(scope="module")
async def upgraded(used: Installation) -> Upgrade:
    """The next version is installed while clients send requests and objects."""
    seen = Upgrade(used.pods())
    with ExitStack() as clients:
        reviews, questions = await start_clients(used, clients)
        used.way.upgrade(used.after)
        await used.wait_until_ready(used.after.version)
        await wait_for_new_pods(used)
    seen.events = used.shop.kubectl("get", "events")
    if reviews is not None and questions is not None:
        seen.answers, seen.right, seen.wrong = (
            dict(questions.answers),
            dict(reviews.right),
            dict(reviews.wrong),
        )
    return seen


async def start_clients(
    story: Installation, clients: ExitStack
) -> tuple[Reviews | None, ResponseCounts | None]:
    """Start the clients that must not see an error, and wait until they succeed."""
    if not story.serves_json:
        return None, None

    def registered() -> None:
        said = story.shop.expect_failure(
            "apply", "--dry-run=server", "-f", "-", input=a_jsonserver("app-wrong", "no json")
        )
        assert "Invalid JSON configuration." in said, said

    await story.in_time(registered)
    service = story.shop.get("service", "app-books")["spec"]
    cluster = story.shop.cluster
    address = service["clusterIP"], service["ports"][0]["port"]
    questions = clients.enter_context(send_requests(cluster, *address, "/books/1"))
    reviews = clients.enter_context(send_reviews(cluster.kubeconfig, SHOP))
    await eventually_true(lambda: questions.answers["200"] and reviews.wrong[REFUSED], within=PATIENCE)
    return reviews, questions


async def wait_for_new_pods(story: Installation) -> None:
    """Wait until no pod of the previous version is left, not even a terminating one."""

    def probe() -> None:
        pods = story.way.system.get("pods", "", "-l", "app.kubernetes.io/part-of=quintet")["items"]
        images = {each["spec"]["containers"][0]["image"] for each in pods}
        assert images == {story.after.image}, images

    await story.in_time(probe)


@pytest.fixture(scope="module")
async def removed(used: Installation, upgraded: Upgrade) -> Installation:
    """Quintet was uninstalled with the same method."""
    used.way.uninstall(used.after)
    return used


async def remove_everything(story: Installation) -> None:
    """Delete everything that is left, including user objects."""
    place = story.way.system
    place.run("delete", "quintets", "quintet", "--ignore-not-found", "--timeout=120s")
    for kind in ("jsonservers", "checkups", "statefulclusters", "eventingbackends", "casconfigs"):
        for name in place.run("get", kind, "-n", SHOP, "-o", "name").stdout.split():
            place.run("patch", name, "-n", SHOP, "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    place.run(
        "delete", "namespace", SHOP, story.way.flavour.namespace, "--ignore-not-found", "--timeout=300s"
    )
    left = [each.split() for each in await inventory(story.api) - story.found]
    for kind, key in left:
        if key.startswith("/") and not kind.startswith("namespaces"):
            place.run("delete", kind, key.removeprefix("/"), "--ignore-not-found", "--timeout=120s")


async def test_user_objects_work_under_restricted_pod_security(used: Installation):
    for namespace in (SHOP, used.way.flavour.namespace):
        labels = used.way.system.get("namespace", namespace)["metadata"]["labels"]
        assert labels["pod-security.kubernetes.io/enforce"] == "restricted", namespace
    kinds = {"jsonserver", "statefulcluster", "eventing"} & set(used.way.controllers)
    assert len(used.pods()) == len(kinds), used.pods()


async def test_no_request_is_forbidden_after_install(used: Installation):
    assert forbidden_requests(used) == []


async def test_upgrade_reaches_crds_and_workloads(used: Installation, upgraded: Upgrade):
    if used.serves_json:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jsonservers.example.com"
        definition = await used.api.get(path)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert NEW_FIELD in schema["properties"]["status"]["properties"]
    if "casconfig" in used.way.controllers:
        (container,) = used.shop.get("deployment", "orders")["spec"]["template"]["spec"]["containers"]
        assert container["env"] == [{"name": "LOG_LEVEL", "value": "debug"}]
        used.shop.kubectl("wait", "evb/bus", "--for=condition=Ready", f"--timeout={PATIENCE}s")
    await run_checkup(used, "after")


async def test_upgrade_causes_no_failed_request_and_no_pod_restart(used: Installation, upgraded: Upgrade):
    want = {"200"} if used.serves_json else set()
    assert set(upgraded.answers) == want, f"{upgraded.answers}\n{upgraded.events}"
    assert used.pods() == upgraded.pods, "the same pods, none of them started again"


async def test_admission_stays_available_during_upgrade(used: Installation, upgraded: Upgrade):
    assert set(upgraded.right) == ({TAKEN} if used.serves_json else set()), upgraded.right
    assert set(upgraded.wrong) == ({REFUSED} if used.serves_json else set()), upgraded.wrong


async def test_no_request_is_forbidden_after_upgrade(used: Installation, upgraded: Upgrade):
    assert forbidden_requests(used) == []


def forbidden_requests(story: Installation) -> list[str]:
    """Return the log lines in which the API server reports a forbidden request."""
    log = story.way.system.kubectl(
        "logs", "-l", "app.kubernetes.io/part-of=quintet", "--tail=-1", "--prefix", "--max-log-requests=30"
    )
    return [line for line in log.splitlines() if "system:serviceaccount:" in line]


async def test_uninstall_leaves_only_expected_objects(upgraded: Upgrade, removed: Installation):
    """Each remaining object existed before, belongs to a user or stays on purpose."""
    with_data = isinstance(removed.way, ByCommandWithData)
    kinds = [kind for name in removed.way.controllers for kind in COMPONENTS[name].kinds]
    definitions = {
        f"customresourcedefinitions.apiextensions.k8s.io /{kind.resource.qualified}" for kind in kinds
    }
    want = removed.way.stays() | (set() if with_data else definitions)

    async def probe() -> None:
        there = await inventory(removed.api)
        left = {
            each
            for each in there - removed.found
            if f" {SHOP}/" not in each and each != f"namespaces /{SHOP}"
        }
        assert left - want - OPTIONAL == set(), "unexpected objects left"
        assert want - left == set(), "expected objects missing"

    await removed.in_time(probe)
    if not with_data:
        for name in ("before", "after"):
            assert find_condition(removed.shop.get("checkup", name), "Succeeded")["status"] == "True"
    if removed.serves_json and not with_data:
        assert removed.shop.get("jsonserver", "app-books")["spec"]["jsonConfig"] == BOOKS
        assert removed.pods() == upgraded.pods, "its pods serve on without a controller"
        removed.shop.kubectl("annotate", "jsonserver", "app-books", "seen=yes")


# Helm and `quintet uninstall` keep the Quintet CRD, so that the next installation finds it.
OPTIONAL = {"customresourcedefinitions.apiextensions.k8s.io /quintets.quintet.dev"}
