"""`quintet dashboard` on a real API server: what three users see, and that it is live."""

import re

import aiohttp
import pytest
import yaml

from kit.cli.browser import dashboard, open_browser
from kit.cli.commands import Person
from kit.cluster.access_reviews import wait_until_allowed
from kit.kinds.jsonservers import a_jsonserver, install
from quintet.apis.jsonserver import JSONSERVERS
from quintet.apis.meta import Object, ObjectKey
from quintet.inspect.session import Target
from quintet.kube.impersonation import ImpersonatedUser

RBAC = "/apis/rbac.authorization.k8s.io/v1"
HOSTILE = "<script>alert(1)</script>"
READ = ["get", "list", "watch"]


async def write_status(client, key, status, reason, message):
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [condition]}}
    await client.patch(JSONSERVERS, key, patch, Object, subresource="status")


@pytest.fixture
async def books(client, namespace):
    """A JsonServer without a controller: its status is what the test writes."""
    await install(client)
    await client.create(JSONSERVERS, a_jsonserver("app-books"), Object, namespace=namespace)
    key = ObjectKey(namespace, "app-books")
    await write_status(client, key, "False", "PodsNotReady", HOSTILE)
    return key


@pytest.fixture
async def editor(api, namespace):
    """A user who may edit JsonServers and read their children in one namespace."""
    user = f"editor-{namespace}"
    base = f"{RBAC}/namespaces/{namespace}"
    rules = [
        {"apiGroups": ["example.com"], "resources": ["jsonservers"], "verbs": [*READ, "update"]},
        {"apiGroups": ["", "apps"], "resources": ["pods", "services", "deployments"], "verbs": READ},
    ]
    await api.create(f"{base}/roles", {"metadata": {"name": "editor"}, "rules": rules})
    binding = {
        "metadata": {"name": "editor"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "editor"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await api.create(f"{base}/rolebindings", binding)
    where = {"group": "example.com", "namespace": namespace}
    await wait_until_allowed(api, user, "list", "jsonservers", **where)
    return ImpersonatedUser(user)


async def test_administrator_sees_objects_of_all_namespaces(cluster, books):
    async with dashboard(Target(str(cluster.kubeconfig))) as browser:
        page = await browser.sees("app-books", f"/?namespace={books.namespace}")
        assert "PodsNotReady" in page
        assert "you have no permission" not in page
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        page = await browser.sees("What to do", f"/objects/JsonServer/{books.namespace}/app-books")
        assert HOSTILE not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


async def test_editor_of_a_namespace_sees_it_and_what_is_not_shown(cluster, books, editor):
    async with dashboard(Target(str(cluster.kubeconfig), namespace=books.namespace, user=editor)) as browser:
        page = await browser.sees("app-books")
        assert (
            f"Checkup is not shown: you have no permission to list and watch them in namespace {books.namespace}"
            in page
        )
        page = await browser.sees("What to do", f"/objects/JsonServer/{books.namespace}/app-books")
        assert "not listed, because you have no permission: " in page
        status, page = await browser.get("/objects/JsonServer/kube-system/app-books")
        assert status == 403
        assert "no permission: " in page


async def test_editor_of_a_namespace_sees_that_of_the_context_by_default(cluster, books, editor, tmp_path):
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = books.namespace
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    async with dashboard(Target(str(path), user=editor)) as browser:
        page = await browser.sees("app-books")
        assert f"Only namespace {books.namespace} is shown, because you have no permission to list" in page


async def test_user_without_permissions_is_told_so(cluster, books):
    target = Target(str(cluster.kubeconfig), user=ImpersonatedUser(f"nobody-{books.namespace}"))
    async with dashboard(target) as browser:
        page = await browser.sees("You have no permission to list any Quintet objects")
        assert "app-books" not in page
        path = f"/objects/JsonServer/{books.namespace}/app-books"
        status, page = await browser.get(path)
        assert status == 403
        assert "no permission: " in page
        assert "PodsNotReady" not in page
        async with browser.follows(path) as views:
            name, text = await views.next()
            assert (name, "no permission" in text) == ("end", True), text
        status, page = await browser.get(f"{path}/logs")
        assert status == 403


async def test_overview_shows_each_change_without_being_asked(cluster, books, client):
    target = Target(str(cluster.kubeconfig), namespace=books.namespace)
    async with dashboard(target) as browser, browser.follows() as views:
        await views.shows("PodsNotReady")
        await write_status(client, books, "True", "AllReplicasAvailable", "fine")
        page = await views.shows("AllReplicasAvailable")
        assert "1 ready" in page
        await client.delete(JSONSERVERS, books)
        await views.shows("There are no objects.")


async def test_object_page_shows_changes_events_and_deletion(cluster, books, client, api):
    uid = (await client.get(JSONSERVERS, books, Object)).metadata.uid
    about = {"kind": "JsonServer", "name": books.name, "namespace": books.namespace, "uid": uid}
    event = {
        "metadata": {"name": "news", "namespace": books.namespace},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "test",
        "reportingInstance": "test",
        "action": "Test",
        "type": "Warning",
        "reason": "Unexpected",
        "note": HOSTILE,
        "regarding": about | {"apiVersion": "example.com/v1"},
    }
    path = f"/objects/JsonServer/{books.namespace}/{books.name}"
    async with dashboard(Target(str(cluster.kubeconfig))) as browser, browser.follows(path) as views:
        await views.shows("PodsNotReady")
        await write_status(client, books, "True", "AllReplicasAvailable", "fine")
        await views.shows("AllReplicasAvailable")
        await api.create(f"/apis/events.k8s.io/v1/namespaces/{books.namespace}/events", event)
        page = await views.shows("Unexpected")
        assert HOSTILE not in page
        await client.delete(JSONSERVERS, books)
        await views.shows("It was deleted")
        assert await views.next() == ("end", "deleted")


async def test_unknown_page_is_not_found(cluster):
    paths = (
        "/nothing",
        "/objects/Nothing/a/b",
        "/objects/JsonServer/a",
        "/static/server.py",
        "/static/%2e%2e/server.py",
    )
    async with dashboard(Target(str(cluster.kubeconfig))) as browser:
        assert [(await browser.get(path))[0] for path in paths] == [404] * len(paths)


async def test_object_that_does_not_exist_is_not_found(cluster, client, namespace):
    await install(client)
    async with dashboard(Target(str(cluster.kubeconfig))) as browser:
        status, page = await browser.get(f"/objects/JsonServer/{namespace}/none")
        assert status == 404
        assert "none" in page


async def test_command_serves_until_interrupted(cluster, books):
    person = Person(cluster.kubeconfig, books.namespace)
    async with person.follows("dashboard") as followed:
        await followed.shows("press Ctrl-C to stop")
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", followed.shown)
        async with aiohttp.ClientSession() as stranger:
            for path in ("/", "/live", "/static/dashboard.js"):
                async with stranger.get(url.partition("/?")[0] + path) as refused:
                    assert refused.status == 403
        async with open_browser(url) as browser:
            page = await browser.sees("app-books")
            assert f"namespace {books.namespace}" in page
            async with browser.session.get(browser.origin) as response:
                policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            async with browser.follows() as views:
                await views.shows("app-books")
                followed.interrupt()
                assert await followed.ends() == 130, followed.shown
    assert "Traceback" not in followed.shown
