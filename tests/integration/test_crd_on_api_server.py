"""A real API server enforces the generated CRDs, shown with the sample kind."""

import copy
import shutil

import pytest

from kit.cluster.api import RefusedError
from kit.cluster.objects import wait_until_gone
from kit.eventually import eventually
from kit.kinds.controllers import CRDS, wait_until_served
from quintet.apis.meta import ObjectKey
from quintet.kube.discovery import list_resources
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.text import as_yaml
from unit.apis.sample_kind import LIBRARY

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = LIBRARY.resource.qualified


@pytest.fixture(scope="module")
async def warnings(api, client, cluster):
    """Install the sample kind and return the API server's warnings."""
    async with api.session.post(api.server + DEFINITIONS, json=custom_resource_definition(LIBRARY)) as answer:
        assert answer.status == 201, await answer.text()
        found = answer.headers.getall("Warning", [])

    async def assert_established():
        conditions = (await api.get(f"{DEFINITIONS}/{NAME}"))["status"]["conditions"]
        states = {condition["type"]: condition["status"] for condition in conditions}
        assert states.get("Established") == "True", conditions

    await eventually(assert_established, within=60)
    # kubectl reads its discovery cache first.
    await wait_until_served(client, LIBRARY.resource)
    clear_kubectl_cache(cluster)
    yield found
    await api.delete(f"{DEFINITIONS}/{NAME}")
    await wait_until_gone(client, CRDS, ObjectKey("", NAME))

    async def assert_unregistered() -> None:
        assert LIBRARY.resource not in await list_resources(client)

    # A kubectl with a cached entry would request the kind with its category, and fail.
    await eventually(assert_unregistered)
    clear_kubectl_cache(cluster)


def clear_kubectl_cache(cluster):
    """Delete kubectl's discovery cache."""
    shutil.rmtree(cluster.environment["KUBECACHEDIR"], ignore_errors=True)


@pytest.fixture
def libraries(warnings, namespace):
    return LIBRARY.resource.path(namespace)


def a_library(name="lib-a", **spec):
    return {
        "apiVersion": LIBRARY.resource.api_version,
        "kind": "Library",
        "metadata": {"name": name},
        "spec": {"owner": "town"} | spec,
    }


async def test_generated_crd_is_structural_and_accepted_without_warnings(warnings, api):
    assert warnings == []
    conditions = (await api.get(f"{DEFINITIONS}/{NAME}"))["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions} == {"NamesAccepted": "True", "Established": "True"}


async def test_crd_file_for_kubectl_matches_created_crd(warnings, cluster):
    applied = cluster.kubectl(
        "apply", "--server-side", "-f", "-", input=as_yaml(custom_resource_definition(LIBRARY))
    )
    assert applied.returncode == 0, applied.stderr
    assert applied.stderr == ""
    changed = cluster.kubectl(
        "diff", "--server-side", "-f", "-", input=as_yaml(custom_resource_definition(LIBRARY))
    )
    assert changed.returncode == 0, changed.stdout


async def test_api_server_sets_only_declared_defaults(api, libraries):
    stored = await api.create(libraries, a_library())
    assert stored["spec"] == {
        "owner": "town",
        "replicas": 1,
        "open": True,
        "storage": "Memory",
        "lending": {"days": 14, "reminders": True},
    }


async def test_unknown_fields_are_pruned_except_in_free_form_fields(api, libraries):
    template = {"spec": {"anything": [1, {"goes": True}]}}
    stored = await api.create(libraries, a_library(colour="red", lending={"speed": 3}, template=template))
    assert "colour" not in stored["spec"]
    assert stored["spec"]["lending"] == {"days": 14, "reminders": True}
    assert stored["spec"]["template"] == template


async def test_values_within_bounds_are_accepted_and_stored(api, libraries):
    spec = {
        "replicas": 100,
        "shelves": [{"name": "a", "capacity": 5, "used": 5}],
        "tags": ["x", "y"],
        "openingHours": ["Mo", "Mo"],
        "labels": {"a": "b"},
        "address": {"street": "s"},
        "grace": "10%",
        "note": None,
    }
    stored = await api.create(libraries, a_library(**spec))
    assert {key: stored["spec"][key] for key in spec} == spec
    assert (await api.create(libraries, a_library("lib-b", grace=3)))["spec"]["grace"] == 3


SHELF = {"name": "a", "capacity": 10}
REFUSED = {
    "a required field": ({"owner": None}, "spec.owner"),
    "a pattern": ({"owner": "Town"}, "should match '^[a-z]([-a-z0-9]*[a-z0-9])?$'"),
    "a minimum length": ({"owner": ""}, "spec.owner in body should be at least 1 chars long"),
    "a maximum length": ({"owner": "a" * 64}, "spec.owner: Too long: may not be more than 63"),
    "a minimum": ({"replicas": -1}, "spec.replicas in body should be greater than or equal to 0"),
    "a maximum": ({"replicas": 101}, "spec.replicas in body should be less than or equal to 100"),
    "a multiple": ({"shelves": [SHELF | {"capacity": 7}]}, "should be a multiple of 5"),
    "a type": ({"replicas": "many"}, 'spec.replicas in body must be of type integer: "string"'),
    "an enum": ({"storage": "Tape"}, 'Unsupported value: "Tape": supported values: "Memory", "Disk"'),
    "a nested bound": (
        {"lending": {"days": 366}},
        "spec.lending.days in body should be less than or equal to 365",
    ),
    "the keys of a list map": ({"shelves": [SHELF, SHELF]}, 'spec.shelves[1]: Duplicate value: {"name":"a"}'),
    "a required field of an item": ({"shelves": [{"name": "a"}]}, "spec.shelves[0].capacity: Required value"),
    "the items of a set": ({"tags": ["a", "a"]}, 'spec.tags[1]: Duplicate value: "a"'),
    "a maximum number of items": (
        {"tags": list("abcde")},
        "spec.tags: Too many: 5: must have at most 4 items",
    ),
    "a maximum number of properties": (
        {"labels": dict.fromkeys("abcd", "")},
        "spec.labels: Too many: 4: must have at most 3 items",
    ),
    "a value of a map": ({"labels": {"a": "x" * 257}}, "spec.labels.a: Too long: may not be more than 256"),
    "an int-or-string": ({"grace": True}, "spec.grace in body must be of type integer,string"),
    "a rule of a struct": (
        {"open": False, "replicas": 1},
        "spec: Invalid value: a closed library must have no `replicas`",
    ),
    "a rule with a message expression": (
        {"shelves": [SHELF | {"used": 11}]},
        "spec.shelves[0].used: Invalid value: must not be more than fits on a",
    ),
}


@pytest.mark.parametrize(("spec", "want_message"), REFUSED.values(), ids=REFUSED)
async def test_api_server_rejects_invalid_spec(api, libraries, spec, want_message):
    with pytest.raises(RefusedError) as refused:
        await api.create(libraries, a_library(**spec))
    assert refused.value.code == 422
    assert want_message in refused.value.status["message"]


async def test_api_server_enforces_rule_on_whole_object(api, libraries):
    with pytest.raises(RefusedError) as refused:
        await api.create(libraries, a_library("museum"))
    assert "must be named 'lib-…'" in refused.value.status["message"]


async def test_api_server_enforces_immutable_field(api, libraries):
    await api.create(libraries, a_library())
    with pytest.raises(RefusedError) as refused:
        await api.merge(f"{libraries}/lib-a", {"spec": {"owner": "state"}})
    assert 'spec.owner: Invalid value: "state": must not be changed' in refused.value.status["message"]


A_CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Open",
    "message": "Readers are in",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
    "observedGeneration": 1,
}


@pytest.mark.parametrize(
    ("wrong", "want_message"),
    [
        ({"status": "Yes"}, 'Unsupported value: "Yes"'),
        ({"reason": "not one word"}, "should match"),
        ({"reason": ""}, "at least 1 chars long"),
        ({"type": "has space"}, "should match"),
        ({"lastTransitionTime": "yesterday"}, "must be of type date-time"),
        ({"lastTransitionTime": None}, "lastTransitionTime"),
        ({"observedGeneration": -1}, "greater than or equal to 0"),
    ],
    ids=str,
)
async def test_api_server_rejects_invalid_condition(api, libraries, wrong, want_message):
    await api.create(libraries, a_library())
    with pytest.raises(RefusedError, match=want_message):
        await api.merge(f"{libraries}/lib-a/status", {"status": {"conditions": [A_CONDITION | wrong]}})


async def test_conditions_of_two_field_managers_are_merged(api, libraries):
    await api.create(libraries, a_library())
    for manager, kind in (("one", "Ready"), ("two", "Reviewed")):
        condition = A_CONDITION | {"type": kind}
        applied = a_library() | {"status": {"conditions": [condition]}}
        del applied["spec"]
        stored = await api.apply(f"{libraries}/lib-a/status", applied, manager=manager)
    assert [condition["type"] for condition in stored["status"]["conditions"]] == ["Ready", "Reviewed"]


async def test_kubectl_get_shows_narrow_and_wide_columns(api, cluster, libraries, namespace):
    await api.create(libraries, a_library())
    await api.merge(f"{libraries}/lib-a/status", {"status": {"conditions": [A_CONDITION]}})
    narrow = cluster.kubectl("get", "lib", "-n", namespace).stdout.splitlines()
    assert narrow[0].split() == ["NAME", "READY", "REPLICAS", "OWNER", "AGE"]
    assert narrow[1].split()[:4] == ["lib-a", "True", "1", "town"]
    wide = cluster.kubectl("get", "lib", "-n", namespace, "-o", "wide").stdout
    assert "MESSAGE" in wide
    assert "Readers are in" in wide


async def test_kubectl_get_category_lists_kind(api, cluster, libraries, namespace):
    await api.create(libraries, a_library())
    assert "lib-a" in cluster.kubectl("get", "quintet", "-n", namespace, "-o", "name").stdout


async def test_kubectl_scale_uses_scale_subresource(api, cluster, libraries, namespace):
    await api.create(libraries, a_library())
    await api.merge(f"{libraries}/lib-a/status", {"status": {"replicas": 1, "selector": "app=lib-a"}})
    scaled = cluster.kubectl("scale", "library/lib-a", "--replicas", "3", "-n", namespace)
    assert scaled.returncode == 0, scaled.stderr
    scale = await api.get(f"{libraries}/lib-a/scale")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 1, "selector": "app=lib-a"}


async def test_field_selector_selects_by_declared_field(api, libraries):
    await api.create(libraries, a_library("lib-a", owner="town"))
    await api.create(libraries, a_library("lib-b", owner="state"))
    found = await api.get(libraries, fieldSelector="spec.owner=state")
    assert [item["metadata"]["name"] for item in found["items"]] == ["lib-b"]


async def test_status_subresource_is_separate_from_spec(api, libraries):
    created = await api.create(libraries, a_library() | {"status": {"replicas": 5}})
    assert "status" not in created
    changed = copy.deepcopy(created) | {"status": {"replicas": 2}}
    changed["spec"]["replicas"] = 9
    stored = await api.update(f"{libraries}/lib-a/status", changed)
    assert (stored["spec"]["replicas"], stored["status"]["replicas"]) == (1, 2)
    assert stored["metadata"]["generation"] == 1


async def test_kubectl_explain_shows_description_at_every_level(warnings, cluster):
    def assert_explained():
        shown = cluster.kubectl("explain", "library.spec")
        text = " ".join(shown.stdout.split())
        assert "What the library should be like." in text, shown.stderr or shown.stdout
        assert "How many copies run." in text
        assert (
            "A place for books of one sort."
            in " ".join(cluster.kubectl("explain", "library.spec.shelves").stdout.split())
            or "The shelves, by name." in text
        )

    await eventually(assert_explained, within=60)
    conditions = " ".join(cluster.kubectl("explain", "library.status.conditions.reason").stdout.split())
    assert "one CamelCase word" in conditions
