"""A real OLM installs Quintet from our catalog, upgrades it while it is in use, and removes it.

The commands are those of docs/suite.md, unchanged. The states come in the order of the fixtures `installed`, `used`,
`upgraded`, `removed`; each test checks one of them.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.checkups import a_checkup, create_checkup_namespace
from e2e.kubectl_client import SYSTEM, KubectlClient
from kit.cli.shell import Shell
from kit.cluster.admission_load import REFUSED, TAKEN, Reviews, send_reviews
from kit.cluster.api import Api
from kit.cluster.control_plane import cluster_with_nodes
from kit.cluster.inventory import inventory
from kit.cluster.node_processes import send_requests
from kit.eventually import NotInTimeError, eventually, eventually_true
from kit.install.olm import ADDRESS, Olm, Programs, an_olm
from kit.install.versions import NEW_FIELD, Version, next_version
from kit.kinds.jsonservers import a_jsonserver
from quintet import __version__
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET as KIND
from quintet.components import COMPONENTS
from quintet.local.cluster import Cluster
from quintet.manifests.olm import additional_objects
from quintet.manifests.operator import operator_rules

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(1200)]

ALL = tuple(COMPONENTS.values())
PAGE = Path(__file__).parents[2] / "docs/suite.md"
BOOKS = '{"books": [{"id": 1, "title": "One"}]}'
PATIENCE = 400
SERVICE_VERSIONS = f"/apis/operators.coreos.com/v1alpha1/namespaces/{SYSTEM}/clusterserviceversions"
INSTALL_PLANS = f"/apis/operators.coreos.com/v1alpha1/namespaces/{SYSTEM}/installplans"
QUINTET = "/apis/quintet.dev/v1alpha1/quintets/quintet"
OURS = "app.kubernetes.io/part-of=quintet"


@dataclass(frozen=True)
class Administrator:
    """An administrator who follows the documentation."""

    olm: Olm
    api: Api
    system: KubectlClient
    shell: Shell
    found: set[str]
    """What the cluster held before anything was installed."""

    async def service_versions(self) -> dict[str, str]:
        """Return the phase of each ClusterServiceVersion."""
        found = await self.api.get(SERVICE_VERSIONS)
        return {each["metadata"]["name"]: each.get("status", {}).get("phase", "") for each in found["items"]}

    async def succeeded(self, version: str) -> None:
        """Wait until OLM has installed a version and no other exists."""

        async def probe() -> None:
            assert await self.service_versions() == {f"quintet.v{version}": "Succeeded"}

        await self.in_time(probe)

    async def settled(self, version: str) -> None:
        """Wait until every controller of a version is ready."""
        want = {"Available": "True", "Progressing": "False", "Degraded": "False"}

        async def probe() -> None:
            status = (await self.api.get(QUINTET)).get("status", {})
            assert {each["type"]: each["status"] for each in status.get("conditions", [])} == want, status
            components = {
                each["name"]: (each.get("version"), each.get("ready")) for each in status["components"]
            }
            assert components == dict.fromkeys(COMPONENTS, (version, True)), status
            assert status["version"] == version, status

        await self.in_time(probe)

    async def all_of(self, image: str) -> None:
        """Wait until all our pods run a version, with no terminating pod of another."""

        def probe() -> None:
            pods = self.system.get("pods", "", "-l", OURS)["items"]
            assert {each["spec"]["containers"][0]["image"] for each in pods} == {image}

        await self.in_time(probe)

    async def in_time(self, probe: Callable[[], Awaitable[None] | None]) -> None:
        """Wait for a state; add a description of the cluster to a timeout error."""
        try:
            await eventually(probe, within=PATIENCE)
        except NotInTimeError as error:
            raise AssertionError(f"{error}\n{self.situation()}") from error

    def find_forbidden_requests(self) -> list[str]:
        """Return the log lines in which the API server reports a forbidden request."""
        log = self.system.kubectl("logs", "-l", OURS, "--tail=-1", "--prefix", "--max-log-requests=20")
        return [line for line in log.splitlines() if "system:serviceaccount:" in line]

    def situation(self) -> str:
        """Describe the cluster for an assertion message."""
        olms = "csv,installplans.operators.coreos.com,subscriptions.operators.coreos.com"
        columns = "custom-columns=ABOUT:.involvedObject.name,REASON:.reason,MESSAGE:.message"
        asked = (
            ("get", olms, "-o", "jsonpath={range .items[*]}{.kind} {.metadata.name}: {.status}{'\\n'}{end}"),
            ("get", "quintets", "-o", "yaml"),
            ("get", "pods", "-o", "wide"),
            ("get", "events", "-o", columns),
            ("logs", "-l", OURS, "--tail=10", "--prefix", "--max-log-requests=20"),
        )
        return "\n".join([*(self.system.run(*each).stdout for each in asked), self.olm.log()])


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_with_nodes("olm", tmp_path_factory.mktemp("olm")) as started:
        yield started


@pytest.fixture(scope="module")
def olm(
    program: Callable[[str], Path], own: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Olm]:
    built = program("olm")
    programs = Programs(built, built.with_name("catalog"), program("opm"), built.with_name("crds"))
    with an_olm(own, programs, tmp_path_factory.mktemp("olm")) as running:
        yield running


@pytest.fixture(scope="module")
async def installed(
    olm: Olm, own: Cluster, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Administrator]:
    """OLM has installed the operator; there is no Quintet yet."""
    shell = Shell(own, "default", PAGE, tmp_path_factory.mktemp("shell"), CATALOG=ADDRESS)
    async with Api.connect(own.kubeconfig) as api:
        # A new CRD is served with a delay.
        found = await eventually(lambda: inventory(api), within=PATIENCE)
        administrator = Administrator(olm, api, KubectlClient(own, SYSTEM), shell, found)
        await olm.serve(dist / "catalog")
        await shell.run("olm-subscribe")
        await administrator.succeeded(__version__)
        yield administrator


@pytest.fixture(scope="module")
async def used(installed: Administrator) -> KubectlClient:
    """Every controller runs, and a user has a JsonServer and a Checkup."""
    (version,) = installed.system.get("clusterserviceversions")["items"]
    (example,) = json.loads(version["metadata"]["annotations"]["alm-examples"])
    # One replica each suffices on a small machine.
    installed.system.apply({**example, "spec": {**example["spec"], "replicas": 1}})
    await installed.settled(__version__)
    shop = create_checkup_namespace(installed.system, "shop")

    def accepted() -> None:
        shop.apply(a_jsonserver("app-books", BOOKS))

    await installed.in_time(accepted)
    shop.wait_for("app-books", "Ready", PATIENCE)
    shop.apply(a_checkup("hello"))
    shop.kubectl("wait", "checkup/hello", "--for=condition=Succeeded", f"--timeout={PATIENCE}s")
    return shop


@dataclass(frozen=True)
class Upgrade:
    """Observations during the upgrade by OLM."""

    after: Version
    answers: dict[str, int]
    reviews: Reviews
    pods_before: dict[str, int]
    shop: KubectlClient


def count_restarts(shop: KubectlClient) -> dict[str, int]:
    """Return container restarts of each JsonServer pod by uid."""
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        for pod in shop.pods("app-books")
    }


@pytest.fixture(scope="module")
async def upgraded(installed: Administrator, used: KubectlClient) -> Upgrade:
    """OLM has installed the next version, and every controller runs it."""
    after = next_version()
    after.load(installed.system.cluster)
    pods = count_restarts(used)
    service = used.get("service", "app-books")["spec"]
    address = service["clusterIP"], service["ports"][0]["port"]
    with (
        send_requests(used.cluster, *address, "/books/1") as questions,
        send_reviews(used.cluster.kubeconfig, used.namespace) as reviews,
    ):
        await eventually_true(lambda: questions.answers["200"] and reviews.wrong[REFUSED], within=PATIENCE)
        await installed.olm.serve(after.dist / "catalog")
        await installed.succeeded(after.version)
        await installed.settled(after.version)
        await installed.all_of(after.image)
    return Upgrade(after, dict(questions.answers), reviews, pods, used)


@pytest.fixture(scope="module")
async def removed(installed: Administrator, upgraded: Upgrade) -> Administrator:
    """Quintet, Subscription and ClusterServiceVersion are deleted as the documentation says."""
    await installed.shell.run("olm-remove")
    return installed


async def test_olm_runs_operator_as_declared_in_bundle(installed: Administrator):
    version = installed.system.get("clusterserviceversions", f"quintet.v{__version__}")
    unmet = [
        each for each in version["status"]["requirementStatus"] if not each["status"].startswith("Present")
    ]
    assert unmet == []
    deployment = installed.system.get("deployment", "quintet-operator")
    assert deployment["metadata"]["labels"]["olm.owner"] == f"quintet.v{__version__}"
    assert deployment["status"]["availableReplicas"] == deployment["spec"]["replicas"] == 2


async def test_olm_grants_operator_only_documented_permissions(installed: Administrator):
    def as_texts(rules: Iterable[JsonObject]) -> set[str]:
        return {json.dumps(each, sort_keys=True) for each in rules}

    bindings = installed.system.get("clusterrolebindings")["items"]
    roles = {
        each["roleRef"]["name"]
        for each in bindings
        for subject in each.get("subjects", [])
        if (subject.get("namespace"), subject["name"]) == (SYSTEM, "quintet-operator")
    }
    held = [rule for role in roles for rule in installed.system.get("clusterrole", role)["rules"]]
    cluster, own_namespace = operator_rules(ALL)
    lifted = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
    assert as_texts(held) == as_texts([*cluster, *own_namespace, lifted])


async def test_every_controller_works_after_olm_install(installed: Administrator, used: KubectlClient):
    pods = installed.system.get("pods", "", "-l", "app.kubernetes.io/managed-by=quintet-operator")["items"]
    accounts = {pod["spec"]["serviceAccountName"] for pod in pods}
    assert accounts == {f"quintet-{name}" for name in COMPONENTS}, installed.situation()
    refused = used.expect_failure("apply", "-f", "-", input=a_jsonserver("app-wrong", config="no json"))
    assert "Invalid JSON configuration." in refused


async def test_no_request_is_forbidden_after_olm_install(installed: Administrator, used: KubectlClient):
    assert installed.find_forbidden_requests() == []


async def test_next_version_replaces_first_with_olm(installed: Administrator, upgraded: Upgrade):
    assert await installed.service_versions() == {f"quintet.v{upgraded.after.version}": "Succeeded"}
    deployment = installed.system.get("deployment", "quintet-operator")
    assert deployment["metadata"]["labels"]["olm.owner"] == f"quintet.v{upgraded.after.version}"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == upgraded.after.image
    definition = installed.system.get("customresourcedefinition", "jsonservers.example.com")
    status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert NEW_FIELD in status["properties"]


async def test_olm_upgrade_causes_no_failed_request_and_no_pod_restart(upgraded: Upgrade):
    assert set(upgraded.answers) == {"200"}, upgraded.answers
    assert count_restarts(upgraded.shop) == upgraded.pods_before, "the same pods, none of them started again"


async def test_admission_stays_available_during_olm_upgrade(upgraded: Upgrade):
    assert set(upgraded.reviews.right) == {TAKEN}, upgraded.reviews.right
    assert set(upgraded.reviews.wrong) == {REFUSED}, upgraded.reviews.wrong


async def test_no_request_is_forbidden_after_olm_upgrade(installed: Administrator, upgraded: Upgrade):
    assert installed.find_forbidden_requests() == []


async def test_every_olm_install_plan_completed(installed: Administrator, upgraded: Upgrade):
    plans = await installed.api.get(INSTALL_PLANS)
    phases = {
        name: plan["status"]["phase"]
        for plan in plans["items"]
        for name in plan["spec"]["clusterServiceVersionNames"]
    }
    versions = (__version__, upgraded.after.version)
    assert phases == {f"quintet.v{version}": "Complete" for version in versions}


async def test_olm_removal_keeps_user_objects(removed: Administrator, upgraded: Upgrade):
    shop = upgraded.shop
    assert shop.get("jsonserver", "app-books")["spec"]["jsonConfig"] == BOOKS
    assert count_restarts(shop) == upgraded.pods_before, "it serves on without a controller"
    shop.kubectl("annotate", "jsonserver", "app-books", "seen=yes")


async def test_olm_removal_keeps_only_crds_and_user_roles(removed: Administrator):
    kinds = [KIND, *(kind for component in ALL for kind in component.kinds)]
    roles = [body["metadata"]["name"] for body in additional_objects(ALL) if body["kind"] == "ClusterRole"]
    # OLM creates these for every CRD of an operator and keeps them as long as the CRD exists.
    roles += [
        f"{KIND.resource.qualified}-v1alpha1-{suffix}" for suffix in ("admin", "crdview", "edit", "view")
    ]
    want = {
        *(f"customresourcedefinitions.apiextensions.k8s.io /{kind.resource.qualified}" for kind in kinds),
        *(f"clusterroles.rbac.authorization.k8s.io /{name}" for name in roles),
        f"namespaces /{SYSTEM}",
        f"serviceaccounts {SYSTEM}/default",
        f"configmaps {SYSTEM}/kube-root-ca.crt",
        f"operators.operators.coreos.com /quintet.{SYSTEM}",
    }

    async def gone() -> None:
        left = {each for each in await inventory(removed.api) - removed.found if "shop" not in each}
        assert (left - want, want - left) == (set(), set()), "left behind, and taken along"

    await removed.in_time(gone)
