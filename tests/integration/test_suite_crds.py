"""CRDs on a real API server: which changes the operator rejects, what it reports and what it keeps."""

import copy
from collections.abc import AsyncIterator
from functools import partial

import pytest
import yaml

from kit.cluster.api import Api
from kit.eventually import eventually
from kit.faults.proxy import FaultProxy
from kit.kinds.jsonservers import ROOT
from kit.kinds.suite import (
    a_flavour,
    apply_quintet,
    installed_operator,
    suite_operator,
    update_crd,
    wait_for_condition,
    wait_until_settled,
)
from kit.manifests.released_crds import released_crds
from quintet.kube.client import Client
from quintet.manifests.installation import Flavour

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHECKUPS = f"{CRDS}/checkups.kiagnose.io"


@pytest.fixture
def flavour(namespace) -> Flavour:
    return a_flavour(namespace)


@pytest.fixture
async def operator(
    api: Api, proxy: FaultProxy, flavour: Flavour, tmp_path, simulated_node
) -> AsyncIterator[None]:
    async with installed_operator(api, flavour) as token, suite_operator(proxy, token, tmp_path, flavour):
        yield


@pytest.fixture
async def spec(operator, api: Api, client: Client):
    """The spec of the Checkup CRD as the operator applied it, restored afterwards."""
    await apply_quintet(api, controllers=["checkup"])
    await wait_until_settled(client)
    made = (await api.get(CHECKUPS))["spec"]
    yield copy.deepcopy(made)
    await update_crd(api, CHECKUPS, made)


def spec_schema(spec):
    return spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def allow_longer_image(spec) -> None:
    spec_schema(spec)["properties"]["image"]["maxLength"] = 1024


def make_account_optional(spec) -> None:
    spec_schema(spec)["required"].remove("serviceAccountName")


def add_newer_version(spec) -> None:
    spec["versions"].append({**copy.deepcopy(spec["versions"][0]), "name": "v1beta1", "storage": False})


def add_field(spec) -> None:
    spec_schema(spec)["properties"]["ofALaterVersion"] = {"type": "string"}


def preserve_unknown_fields(spec) -> None:
    spec_schema(spec)["x-kubernetes-preserve-unknown-fields"] = True


WIDER = [
    (add_field, "versions[v1alpha1].schema.spec.ofALaterVersion"),
    (allow_longer_image, "versions[v1alpha1].schema.spec.image"),
    (make_account_optional, "versions[v1alpha1].schema.spec.serviceAccountName"),
    (add_newer_version, "versions[v1beta1]"),
    (preserve_unknown_fields, "versions[v1alpha1].schema.spec"),
]


async def test_crd_of_a_later_version_stays_and_controllers_are_rolled_out(spec, api: Api, client: Client):
    for number, (change, want) in enumerate(WIDER):
        changed = copy.deepcopy(spec)
        change(changed)
        await update_crd(api, CHECKUPS, changed)
        before = (await api.get(CHECKUPS))["spec"]
        await apply_quintet(api, controllers=["checkup"], image=f"q:{number + 2}")

        async def assert_reported(want=want) -> None:
            quintet = await wait_for_condition(client, "Degraded", "False", "NewerDefinitions", within=5)
            (found,) = [each.message for each in quintet.status.conditions if each.type == "Degraded"]
            assert found == (
                "these CRDs are of a later version and stay: checkups.kiagnose.io (this version ignores "
                f"{want})"
            )

        # Until then the status may describe the previous change.
        await eventually(assert_reported, within=120)
        quintet = await wait_until_settled(client, ready="1/1")
        assert [each.version for each in quintet.status.components] == [f"{number + 2}"]
        assert (await api.get(CHECKUPS))["spec"] == before


async def test_incompatible_crd_stops_only_its_controller(spec, api: Api, client: Client):
    changed = copy.deepcopy(spec)
    allow_longer_image(changed)
    spec_schema(changed)["properties"]["image"]["pattern"] = "^registry"
    await update_crd(api, CHECKUPS, changed)
    before = (await api.get(CHECKUPS))["spec"]
    await apply_quintet(api, controllers=["checkup", "jsonserver"], image="q:2")

    async def assert_reported() -> None:
        quintet = await wait_for_condition(client, "Degraded", "True", "UnsafeDefinition", within=5)
        (found,) = [each.message for each in quintet.status.conditions if each.type == "Degraded"]
        assert "spec.image: maxLength is tightened from 1024 to 512" in found
        components = {each.name: (each.version, each.ready) for each in quintet.status.components}
        assert components == {"checkup": ("1", False), "jsonserver": ("2", True)}

    await eventually(assert_reported, within=120)
    assert (await api.get(CHECKUPS))["spec"] == before


async def test_crd_that_allows_less_than_ours_is_replaced(spec, api: Api, client: Client):
    spec_schema(spec)["properties"]["image"]["maxLength"] = 100
    await update_crd(api, CHECKUPS, spec)

    async def assert_replaced() -> None:
        live = await api.get(CHECKUPS)
        assert spec_schema(live["spec"])["properties"]["image"]["maxLength"] == 512

    await eventually(assert_replaced, within=120)
    await wait_for_condition(client, "Degraded", "False")


async def test_crd_version_with_stored_objects_is_not_removed(spec, api: Api, client: Client):
    add_newer_version(spec)
    old, new = spec["versions"]
    old["storage"], new["storage"] = False, True
    await update_crd(api, CHECKUPS, spec)
    old["storage"], new["storage"] = True, False
    new["served"] = False
    await update_crd(api, CHECKUPS, spec)

    async def assert_reported() -> None:
        quintet = await wait_for_condition(client, "Degraded", "False", "NewerDefinitions", within=5)
        (found,) = [each.message for each in quintet.status.conditions if each.type == "Degraded"]
        assert "this version ignores versions[v1beta1]" in found

    await eventually(assert_reported, within=120)
    # As an administrator does after storage migration.
    await api.merge(f"{CHECKUPS}/status", {"status": {"storedVersions": ["v1alpha1"]}})

    async def assert_gone() -> None:
        names = [version["name"] for version in (await api.get(CHECKUPS))["spec"]["versions"]]
        assert names == ["v1alpha1"]

    await eventually(assert_gone, within=120)
    await wait_for_condition(client, "Degraded", "False", "AsWanted")


@pytest.mark.parametrize("version", released_crds())
async def test_crds_of_release_are_upgraded_and_objects_stay_valid(
    api: Api,
    client: Client,
    proxy: FaultProxy,
    flavour: Flavour,
    tmp_path,
    simulated_node,
    namespace,
    version,
):
    """The record has no descriptions, so every CRD differs and is applied."""
    async with installed_operator(api, flavour) as token:
        definitions = released_crds()[version]
        for name, body in definitions.items():
            await api.apply(f"{CRDS}/{name}", body, manager="quintet", force=True)
        stored = {}
        for path, body in sample_objects(definitions, namespace):
            # Fields of later versions are dropped.
            create = partial(api.create, path, body, fieldValidation="Warn")
            stored[f"{path}/{body['metadata']['name']}"] = await eventually(create, within=60)
        assert len({body["kind"] for body in stored.values()}) >= 6, stored
        async with suite_operator(proxy, token, tmp_path, flavour):
            await apply_quintet(api)
            await wait_until_settled(client)
            await wait_for_condition(client, "Degraded", "False")
            for path, before in stored.items():
                after = await api.get(path)
                assert after["spec"] == before["spec"], path
                await api.update(path, after, dryRun="All", fieldValidation="Strict")


def sample_objects(definitions, namespace: str):
    """Return the samples of our kinds with the path of their collection."""
    plurals = {
        (each["spec"]["group"], each["spec"]["names"]["kind"]): each["spec"]["names"]["plural"]
        for each in definitions.values()
    }
    for path in sorted((ROOT / "config/samples").glob("*.yaml")):
        for body in filter(None, yaml.safe_load_all(path.read_text())):
            group, _, served = body["apiVersion"].partition("/")
            body["metadata"].pop("namespace", None)
            if plural := plurals.get((group, body["kind"])):
                yield f"/apis/{group}/{served}/namespaces/{namespace}/{plural}", body
