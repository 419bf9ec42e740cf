"""`quintet events` and `quintet explain` on a real API server with controllers."""

import json
import secrets

import pytest

from kit.cli.commands import Person
from kit.eventually import eventually
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator, wait_for_state
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey
from quintet.runtime.events import EVENTS


@pytest.fixture
async def person(client, api, cluster, namespace):
    """Somebody with a JsonServer whose pod finds no node."""
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-books"), Object, namespace=namespace)
    async with jsonserver_operator(cluster.kubeconfig, namespace=namespace):
        await wait_for_state(client, ObjectKey(namespace, "app-books"), "Synced")

        async def told():
            """Each program writes its Events when it gets round to it."""
            found = (await api.get(EVENTS.path(namespace)))["items"]
            assert "FailedScheduling" in {each["reason"] for each in found}, found
            kinds = {each["regarding"]["kind"] for each in found}
            assert kinds >= {"JsonServer", "Deployment", "ReplicaSet", "Pod"}, found

        await eventually(told, within=120.0)
        yield Person(cluster.kubeconfig, namespace)


def about(shown):
    """The kinds that Events are shown of."""
    rows = shown.splitlines()[1:]
    return {cell.partition("/")[0] for row in rows for cell in row.split() if "/app-books" in cell}


async def test_events_of_object_include_those_of_its_children(person):
    shown = await person.sees("events", "js", "app-books")
    assert "FailedScheduling" in shown, shown
    assert shown.splitlines()[0].split() == ["LAST", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert about(shown) >= {"jsonserver", "deployment", "replicaset", "pod"}, shown
    everything = await person.sees("events")
    assert "FailedScheduling" in everything
    as_json = json.loads(await person.sees("events", "js/app-books", "-o", "json"))
    assert any(each["reason"] == "FailedScheduling" for each in as_json["items"])


def an_event(name, reason, regarding, **fields):
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/somebody",
        "reportingInstance": "somebody",
        "type": "Normal",
        "reason": reason,
        "action": "Look",
        "note": "something was seen",
        "regarding": regarding,
        **fields,
    }


async def test_events_of_object_exclude_those_of_other_objects(person, client, namespace):
    own = (await client.get(JSONSERVERS, ObjectKey(namespace, "app-books"), Object)).metadata.uid
    books = {"apiVersion": "example.com/v1", "kind": "JsonServer", "name": "app-books", "uid": own}
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "1-2-3"}
    series = {"count": 4, "lastObservedTime": "2026-01-01T01:00:00.000000Z"}
    for event in (
        an_event("own", "Own", books | {"namespace": namespace}, series=series),
        an_event("foreign", "Foreign", other | {"namespace": namespace}),
    ):
        await client.create(EVENTS, event, Object, namespace=namespace)
    shown = await person.sees("events")
    assert "Foreign" not in shown
    own_line = next(line for line in shown.splitlines() if "Own" in line)
    assert "(x4)" in own_line
    assert "jsonserver/app-books" in own_line


async def test_events_watch_prints_new_events(person, client, namespace):
    async with person.follows("events", "-w") as followed:
        await followed.shows("FailedScheduling")
        await client.create(JSONSERVERS, a_jsonserver("app-later"), Object, namespace=namespace)
        await followed.shows("pod/app-later")


async def test_explain_leads_from_condition_to_pod_and_next_step(person, namespace):
    async def explained():
        """Once the pod itself says so, too: the scheduler tells it after its Event."""
        shown = await person.sees("explain", "js", "app-books")
        assert "Pending, Unschedulable: " in shown, shown
        assert "not ready (Unschedulable)" in shown, shown
        return shown.splitlines()

    lines = await eventually(explained, within=120.0)
    assert lines[0] == f"JsonServer {namespace}/app-books: not ready (Unschedulable)"
    titles = [line for line in lines[1:] if not line.startswith(" ")]
    assert titles == ["why", "children with problems", "last Events", "next"]
    assert lines[2].startswith("  Ready is False, Unschedulable (for "), lines
    assert any(
        line.startswith("  Pod app-books-") and "Pending, Unschedulable: " in line for line in lines
    ), lines
    assert "  see Unschedulable in docs/jsonserver.md#status" in lines
    found = json.loads(await person.sees("explain", "js/app-books", "-o", "json"))
    assert found["conditions"][0]["page"] == "docs/jsonserver.md#status"


async def test_explain_reports_object_that_its_controller_has_not_observed(client, cluster, namespace):
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-alone"), Object, namespace=namespace)
    shown = await Person(cluster.kubeconfig, namespace).sees("explain", "js", "app-alone")
    assert "the controller has not observed the last change (generation 1, observed 0)" in shown
    assert "`quintet logs controller jsonserver`" in shown


@pytest.fixture
def visitor(cluster, namespace):
    """Somebody who may look at JsonServers and Deployments of the namespace, and at nothing else."""
    name = f"visitor-{secrets.token_hex(3)}"
    role = ("role", name, "--verb=get,list,watch", "--resource=jsonservers.example.com,deployments.apps")
    for command in (role, ("rolebinding", name, f"--role={name}", f"--user={name}")):
        done = cluster.kubectl("create", "-n", namespace, *command)
        assert done.returncode == 0, done.stderr
    return Person(cluster.client_kubeconfig(name), namespace)


async def test_explain_with_few_permissions_reports_what_was_not_listed(person, visitor):
    async def allowed():
        """A role takes a moment to reach the authorizer."""
        answer = await visitor.asks("tree", "js", "app-books")
        assert "Deployment app-books" in answer.stdout, answer
        return answer

    answer = await eventually(allowed)
    assert answer.returncode == 0
    assert "Pod" not in answer.stdout
    assert "not listed, because you have no permission: " in answer.stderr
    assert "pods" in answer.stderr
    told = await visitor.asks("explain", "js", "app-books")
    assert (told.returncode, "events.events.k8s.io" in told.stderr) == (0, True), told
    listed = await visitor.asks("status")
    assert (listed.returncode, "jsonserver/app-books" in listed.stdout) == (0, True), listed
    assert "Checkup: no permission to list them" in listed.stderr
    assert "Quintet: " not in listed.stderr, "users of one namespace never see what belongs to the cluster"
    refused = await visitor.asks("events", "js", "app-books")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "no permission" in refused.stderr
