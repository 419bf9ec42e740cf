"""`quintet tree` on a real API server with controllers."""

import json

import pytest

from kit.cli.commands import Person
from kit.eventually import eventually
from kit.kinds import eventingbackends as eventing
from kit.kinds import statefulclusters
from kit.kinds.casconfigs import DEPLOYMENTS, a_deployment, a_policy, wait_until_applied
from kit.kinds.casconfigs import create as a_config
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey


@pytest.fixture
async def person(client, api, cluster, namespace, simulated_node):
    """Somebody with a JsonServer that is ready."""
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-books"), Object, namespace=namespace)
    async with jsonserver_operator(cluster.kubeconfig, namespace=namespace):

        async def grown():
            """All of it is there; each part is made by a controller of its own."""
            server = await api.get(JSONSERVERS.path(namespace, "app-books"))
            ready = [each["status"] for each in server["status"]["conditions"] if each["type"] == "Ready"]
            assert ready == ["True"], server["status"]
            slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
            assert (await api.get(slices))["items"], "the Service has no EndpointSlice yet"
            # The scheduler may say of a pod that no node takes it after the simulated one has taken it.
            for pod in (await api.get(f"/api/v1/namespaces/{namespace}/pods"))["items"]:
                assert all(each["status"] == "True" for each in pod["status"]["conditions"]), pod["status"]

        await eventually(grown, within=180.0)
        yield Person(cluster.kubeconfig, namespace)


async def test_tree_shows_owned_objects_down_to_pods_with_state(person):
    shown = await person.sees("tree", "js", "app-books")
    lines = shown.splitlines()
    assert lines[0] == "JsonServer app-books  ready (AllReplicasAvailable)"
    assert "├── ConfigMap app-books" in lines
    assert "├── Deployment app-books  1/1" in lines
    depth = {line.split("── ")[1].split()[0]: line.index("──") for line in lines[1:]}
    assert depth["Deployment"] < depth["ReplicaSet"] < depth["Pod"]
    assert "└── Service app-books" in lines
    assert depth["EndpointSlice"] > depth["Service"]
    assert "\x1b" not in shown


async def test_tree_prints_json(person):
    found = json.loads(await person.sees("tree", "js/app-books", "-o", "json"))
    kinds = {each["kind"]: each for each in found["root"]["children"]}
    assert set(kinds) == {"ConfigMap", "Deployment", "Service"}
    pod = kinds["Deployment"]["children"][0]["children"][0]
    assert (pod["kind"], pod["state"], pod["mark"]) == ("Pod", "Running", "ok")
    assert found["notListed"] == []


async def test_tree_watch_shows_changes_until_deletion(person, client, namespace):
    key = ObjectKey(namespace, "app-books")
    async with person.follows("tree", "js/app-books", "-w") as followed:
        await followed.shows("Deployment app-books  1/1")
        await client.patch(JSONSERVERS, key, {"spec": {"replicas": 2}}, Object)
        await followed.shows("Deployment app-books  2/2")
        await client.delete(JSONSERVERS, key)
        await followed.shows("JsonServer app-books was deleted")
        assert await followed.ends() == 0, followed.shown
    assert "\x1b" not in followed.shown


async def test_tree_of_casconfig_shows_targets_from_status(
    casconfig_operator, casconfigs, cluster, namespace
):
    await casconfigs.create(DEPLOYMENTS, a_deployment("books"), Object, namespace=namespace)
    policy = a_policy("all", include={"kinds": ["Deployment"]}, labels={"x": "y"})
    key = await a_config(casconfigs, namespace, "logging", policy)
    await wait_until_applied(casconfigs, key, 1)
    shown = await Person(cluster.kubeconfig, namespace).sees("tree", "casc", "logging")
    assert "└── Deployment books (target)  Applied" in shown


async def test_tree_shows_unowned_claims_below_their_pod(cluster_operator, clusters, cluster, namespace):
    await statefulclusters.create(clusters, namespace)

    async def probe():
        shown = await Person(cluster.kubeconfig, namespace).sees("tree", "stc", "web")
        lines = shown.splitlines()
        pod = next(number for number, line in enumerate(lines) if "── Pod web-" in line)
        assert "── PersistentVolumeClaim data-web-" in lines[pod + 1], shown
        assert lines[pod + 1].endswith("(used)  Pending"), shown

    await eventually(probe, within=120.0)


async def test_tree_of_backend_shows_its_subscriptions(backends, cluster, namespace):
    await eventing.create(backends, namespace, "events")
    await eventing.create_subscription(backends, namespace, "orders", "events")
    await eventing.create_subscription(backends, namespace, "others", "elsewhere")
    shown = await Person(cluster.kubeconfig, namespace).sees("tree", "evb", "events")
    assert shown.splitlines() == [
        "EventingBackend events  not yet ready (NoStatus)",
        "└── Subscription orders (uses it)  not yet ready (NoStatus)",
    ]


async def test_tree_of_subscription_shows_its_backend_and_sink(backends, cluster, namespace):
    await eventing.create(backends, namespace, "events")
    await eventing.create_subscription(backends, namespace, "orders", "events")
    shown = await Person(cluster.kubeconfig, namespace).sees("tree", "evsub", "orders")
    assert "── EventingBackend events (its backend)  not yet ready (NoStatus)" in shown
    assert "└── Service " in shown
    assert shown.rstrip().endswith("(its sink)  does not exist")
