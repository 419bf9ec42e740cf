"""`quintet status`, as a person calls it on a real API server."""

import contextlib
import json

import pytest
import yaml

from kit.cli.commands import Person
from kit.cluster.control_plane import fresh_namespace
from kit.eventually import eventually
from kit.kinds.checkups import a_checkup
from kit.kinds.jsonservers import a_jsonserver, install, jsonserver_operator, wait_for_state
from quintet.apis.checkup import CHECKUPS
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey


@pytest.fixture
async def person(client, checkups, cluster, namespace):
    async with at_work(client, cluster, namespace) as somebody:
        yield somebody


@pytest.fixture(scope="module")
async def reader(client, checkups, cluster, api):
    """Somebody like that who changes nothing."""
    async with fresh_namespace(api) as namespace, at_work(client, cluster, namespace) as somebody:
        yield somebody


@contextlib.asynccontextmanager
async def at_work(client, cluster, namespace):
    """Somebody in a namespace with a Checkup that nobody works on, and a JsonServer whose controller runs."""
    await install(client)
    await client.create(CHECKUPS, a_checkup("hello"), Object, namespace=namespace)
    body = a_jsonserver("app-books")
    body["metadata"]["labels"] = {"team": "shop"}
    await client.create(JSONSERVERS, body, Object, namespace=namespace)
    async with jsonserver_operator(cluster.kubeconfig, namespace=namespace):

        async def counted():
            """From here on nothing changes by itself: its pod is there, and there is no node for it."""
            found = await wait_for_state(client, ObjectKey(namespace, "app-books"), "Synced")
            assert found.status.replicas == 1, found.status

        await eventually(counted, within=120.0)
        yield Person(cluster.kubeconfig, namespace)


async def test_a_list_has_the_objects_of_all_kinds_with_the_reason(reader):
    head, *rows = (await reader.sees("status")).splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "AGE", "MESSAGE"]
    seen = {row.split()[0]: row for row in rows}
    assert set(seen) == {"checkup/hello", "jsonserver/app-books"}, rows
    assert seen["jsonserver/app-books"].split()[1:3] == ["False", "RollingOut"]
    assert "0 of 1 replicas serve the data" in seen["jsonserver/app-books"]
    assert seen["checkup/hello"].split()[1:3] == ["Unknown", "NoStatus"]
    assert "the controller has not seen the last change" in seen["checkup/hello"]


async def test_a_list_is_narrowed_by_kind_label_and_namespace(reader):
    assert "checkup" not in await reader.sees("status", "js")
    assert "checkup" not in await reader.sees("status", "-l", "team=shop")
    everywhere = await reader.sees("status", "-A")
    assert everywhere.startswith("NAMESPACE")
    assert f"{reader.namespace} " in everywhere
    nothing = await reader.asks("status", "ckup", "-l", "team=shop")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "there is nothing in namespace" in nothing.stderr


async def test_one_object_is_shown_with_conditions_and_columns_in_words(reader):
    shown = await reader.sees("status", "jsonserver", "app-books")
    lines = shown.splitlines()
    assert lines[0] == f"JsonServer {reader.namespace}/app-books: not ready (RollingOut)"
    assert f"http://app-books.{reader.namespace}.svc" in shown
    words = [line.split()[:4] for line in lines[lines.index("conditions") + 1 :]]
    assert words[0] == ["ok", "Synced", "True", "Applied"]
    assert words[1] == ["wrong", "Ready", "False", "RollingOut"]
    assert words[2] == ["open", "Verified", "Unknown", "NotReady"]
    assert "\x1b" not in shown
    assert "✗" not in shown


async def test_programs_get_the_same(reader):
    as_json = json.loads(await reader.sees("status", "js/app-books", "-o", "json"))
    assert (as_json["ready"], as_json["reason"], as_json["current"]) == ("False", "RollingOut", True)
    assert [each["mark"] for each in as_json["conditions"]] == ["ok", "wrong", "open"]
    as_yaml = yaml.safe_load(await reader.sees("status", "js/app-books", "-o", "yaml"))
    assert as_yaml["facts"] == as_json["facts"]
    assert "State=Synced, Replicas=" in await reader.sees("status", "js", "-o", "wide")
    listed = json.loads(await reader.sees("status", "-o", "json"))
    assert {each["name"] for each in listed["items"]} == {"hello", "app-books"}


async def test_a_suspended_object_is_said_to_be_so(person, client, namespace):
    body = {"metadata": {"annotations": {"quintet.dev/suspended": "true"}}}
    await client.patch(CHECKUPS, ObjectKey(namespace, "hello"), body, Object)
    shown = await person.sees("status", "checkup", "hello")
    assert "it is suspended: its controller leaves it alone until `quintet resume`" in shown


async def test_changes_are_shown_as_they_come_and_the_end_of_the_object_ends_it(person, client, namespace):
    async with person.follows("status", "js/app-books", "-w") as followed:
        await followed.shows("wrong  Ready")
        body = {"spec": {"replicas": 0}}
        await client.patch(JSONSERVERS, ObjectKey(namespace, "app-books"), body, Object)
        await followed.shows("ScaledToZero")
        await client.delete(JSONSERVERS, ObjectKey(namespace, "app-books"))
        await followed.shows("jsonserver/app-books is gone")
        assert await followed.ends() == 0, followed.shown


async def test_a_list_can_be_followed_too(person, client, namespace):
    async with person.follows("status", "-w") as followed:
        await followed.shows("jsonserver/app-books  False")
        await client.create(CHECKUPS, a_checkup("later"), Object, namespace=namespace)
        await followed.shows("checkup/later  Unknown")
        assert followed.shown.count("checkup/hello") == 1, followed.shown


@pytest.mark.parametrize(
    ("arguments", "code", "want"),
    [
        (("js", "app-nobody"), 1, "app-nobody"),
        (("jsonserve",), 2, "did you mean 'jsonserver'?"),
        (("js", "a", "b"), 2, "name one object"),
        (("js/a", "-A"), 2, "-l and -A choose from a list"),
        (("js", "--kubeconfig", "nothing"), 1, "nothing"),
    ],
    ids=["no such object", "no such kind", "too many", "all of one", "no kubeconfig"],
)
async def test_what_is_not_there_is_said_in_one_line(reader, arguments, code, want):
    answer = await reader.asks("status", *arguments)
    assert (answer.returncode, answer.stdout) == (code, ""), answer
    assert want in answer.stderr
    assert "Traceback" not in answer.stderr
