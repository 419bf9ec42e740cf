"""`quintet status` on a real API server."""

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

        async def unschedulable():
            """From here on nothing changes by itself: its pod is there, and there is no node for it."""
            found = await wait_for_state(client, ObjectKey(namespace, "app-books"), "Synced")
            assert [each.reason for each in found.status.conditions if each.type == "Ready"] == [
                "Unschedulable"
            ]

        await eventually(unschedulable, within=120.0)
        yield Person(cluster.kubeconfig, namespace)


async def test_status_lists_objects_of_all_kinds_with_reasons(reader):
    head, *rows = (await reader.sees("status")).splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "AGE", "MESSAGE"]
    seen = {row.split()[0]: row for row in rows}
    assert set(seen) == {"checkup/hello", "jsonserver/app-books"}, rows
    assert seen["jsonserver/app-books"].split()[1:3] == ["False", "Unschedulable"]
    assert "0 of 1 replicas serve the data" in seen["jsonserver/app-books"]
    assert seen["checkup/hello"].split()[1:3] == ["Unknown", "NoStatus"]
    assert "the controller has not observed the last change" in seen["checkup/hello"]


async def test_status_filters_by_kind_label_and_namespace(reader):
    assert "checkup" not in await reader.sees("status", "js")
    assert "checkup" not in await reader.sees("status", "-l", "team=shop")
    everywhere = await reader.sees("status", "-A")
    assert everywhere.startswith("NAMESPACE")
    assert f"{reader.namespace} " in everywhere
    nothing = await reader.asks("status", "ckup", "-l", "team=shop")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no objects found in namespace" in nothing.stderr


async def test_status_of_one_object_shows_conditions_and_columns(reader):
    shown = await reader.sees("status", "jsonserver", "app-books")
    lines = shown.splitlines()
    assert lines[0] == f"JsonServer {reader.namespace}/app-books: not ready (Unschedulable)"
    assert f"http://app-books.{reader.namespace}.svc" in shown
    words = [line.split()[:4] for line in lines[lines.index("conditions") + 1 :]]
    assert words[0] == ["ok", "Synced", "True", "Applied"]
    assert words[1] == ["wrong", "Ready", "False", "Unschedulable"]
    assert words[2] == ["open", "Verified", "Unknown", "NotReady"]
    assert "\x1b" not in shown
    assert "✗" not in shown


async def test_status_as_another_user_has_the_permissions_of_that_user(reader):
    refused = await reader.asks("status", "--as", "jane")
    assert refused.returncode == 1, refused.stdout
    assert "no permission to list them" in refused.stderr
    admin = await reader.sees("status", "--as", "jane", "--as-group", "system:masters", "-o", "name")
    assert set(admin.splitlines()) == {"checkup/hello", "jsonserver/app-books"}
    nobody = await reader.asks("status", "--as-group", "system:masters")
    assert nobody.returncode == 1, nobody.stdout
    assert "need `as`, the user" in nobody.stderr


async def test_status_prints_json(reader):
    as_json = json.loads(await reader.sees("status", "js/app-books", "-o", "json"))
    assert (as_json["ready"], as_json["reason"], as_json["current"]) == ("False", "Unschedulable", True)
    assert [each["mark"] for each in as_json["conditions"]] == ["ok", "wrong", "open"]
    as_yaml = yaml.safe_load(await reader.sees("status", "js/app-books", "-o", "yaml"))
    assert as_yaml["facts"] == as_json["facts"]
    assert "State=Synced, Replicas=" in await reader.sees("status", "js", "-o", "wide")
    listed = json.loads(await reader.sees("status", "-o", "json"))
    assert {each["name"] for each in listed["items"]} == {"hello", "app-books"}


async def test_status_prints_names_that_other_commands_accept(reader):
    names = (await reader.sees("status", "-o", "name")).splitlines()
    assert set(names) == {"checkup/hello", "jsonserver/app-books"}
    assert await reader.sees("status", *names[:1], "-o", "name") == f"{names[0]}\n"


async def test_status_reports_suspended_object(person, client, namespace):
    body = {"metadata": {"annotations": {"quintet.dev/suspended": "true"}}}
    await client.patch(CHECKUPS, ObjectKey(namespace, "hello"), body, Object)
    shown = await person.sees("status", "checkup", "hello")
    assert "it is suspended: its controller skips it until `quintet resume`" in shown


async def test_status_watch_prints_changes_until_deletion(person, client, namespace):
    async with person.follows("status", "js/app-books", "-w") as followed:
        await followed.shows("wrong  Ready")
        body = {"spec": {"replicas": 0}}
        await client.patch(JSONSERVERS, ObjectKey(namespace, "app-books"), body, Object)
        await followed.shows("ScaledToZero")
        await client.delete(JSONSERVERS, ObjectKey(namespace, "app-books"))
        await followed.shows("jsonserver/app-books was deleted")
        assert await followed.ends() == 0, followed.shown


async def test_status_watch_follows_a_list(person, client, namespace):
    async with person.follows("status", "-w") as followed:
        await followed.shows("jsonserver/app-books  False")
        await client.create(CHECKUPS, a_checkup("later"), Object, namespace=namespace)
        await followed.shows("checkup/later  Unknown")
        assert followed.shown.count("checkup/hello") == 1, followed.shown


async def test_status_watch_on_a_terminal_redraws_a_list_in_place(person, client, namespace):
    async with person.follows("status", "-w", terminal=True) as followed:

        def shows(*want):
            """Whether the last of the screens, each of which begins by clearing the one before, has these rows."""
            rows = followed.shown.rpartition("\x1b[J")[2].splitlines()
            assert [line.split()[0] for line in rows] == ["NAME", *want], followed.shown

        await eventually(lambda: shows("jsonserver/app-books", "checkup/hello"), within=120)
        await client.create(CHECKUPS, a_checkup("later"), Object, namespace=namespace)
        await eventually(lambda: shows("jsonserver/app-books", "checkup/hello", "checkup/later"), within=120)
        assert "\x1b[3F\x1b[J" in followed.shown, "it did not go back to the first of three lines"
        await client.delete(CHECKUPS, ObjectKey(namespace, "hello"))
        await eventually(lambda: shows("jsonserver/app-books", "checkup/later"), within=120)


async def test_status_watch_on_a_terminal_redraws_an_object_until_deletion(person, client, namespace):
    key = ObjectKey(namespace, "app-books")
    async with person.follows("status", "js/app-books", "-w", terminal=True) as followed:
        await followed.shows("Unschedulable")
        await client.patch(JSONSERVERS, key, {"spec": {"replicas": 0}}, Object)
        await followed.shows("ScaledToZero")
        assert "Unschedulable" not in followed.shown.rpartition("\x1b[J")[2], followed.shown
        await client.delete(JSONSERVERS, key)
        await followed.shows("jsonserver/app-books was deleted")
        assert await followed.ends() == 0, followed.shown


@pytest.mark.parametrize(
    ("arguments", "code", "want"),
    [
        (("js", "app-nobody"), 1, "app-nobody"),
        (("jsonserve",), 2, "did you mean 'jsonserver'?"),
        (("js", "a", "b"), 2, "name one object"),
        (("js/a", "-A"), 2, "-l and -A filter a list"),
        (("js", "--kubeconfig", "nothing"), 1, "nothing"),
    ],
    ids=["no such object", "no such kind", "too many", "all of one", "no kubeconfig"],
)
async def test_status_of_missing_object_prints_one_line(reader, arguments, code, want):
    answer = await reader.asks("status", *arguments)
    assert (answer.returncode, answer.stdout) == (code, ""), answer
    assert want in answer.stderr
    assert "Traceback" not in answer.stderr
