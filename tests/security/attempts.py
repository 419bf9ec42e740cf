"""Requests of a user that are only tried: dry runs with impersonation."""

import json
from typing import Any, NamedTuple

from kit.cluster.access_reviews import wait_until_allowed
from kit.cluster.api import Api, JsonObject
from quintet.kinds import PROBE_NAME, Kind, load

BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings"


class Attempt(NamedTuple):
    """What the API server responded."""

    code: int
    message: str
    spec: JsonObject | None
    """What would be stored."""


def base_object(kind: Kind, namespace: str) -> JsonObject:
    """Return the smallest valid object of a kind."""
    declaration = load(kind.declaration)
    spec = json.loads(json.dumps(dict(kind.probe)).replace("{namespace}", namespace))
    return {
        "apiVersion": declaration.resource.api_version,
        "kind": kind.name,
        "metadata": {"name": PROBE_NAME},
        "spec": spec,
    }


def editor_of(kind: Kind) -> str:
    """Return the name of the user with the editor role of a kind."""
    return f"editor-of-{kind.name.lower()}"


async def bind_editor(api: Api, namespace: str, kind: Kind) -> str:
    """Give a user the editor role of a kind in a namespace, and return the user's name."""
    await bind_role(api, namespace, editor_of(kind), f"{kind.name.lower()}-editor")
    resource = load(kind.declaration).resource
    await wait_until_allowed(
        api, editor_of(kind), "create", resource.plural, group=resource.group, namespace=namespace
    )
    return editor_of(kind)


async def bind_role(api: Api, namespace: str, user: str, role: str) -> None:
    """Bind a ClusterRole to a user in a namespace."""
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
    body = {"metadata": {"name": f"{user}-{role}"}, "roleRef": reference, "subjects": subjects}
    await api.create(BINDINGS.format(namespace), body)


async def attempt(api: Api, user: str, verb: str, path: str, body: Any) -> Attempt:
    """Try a request as a user, as a dry run."""
    headers = {"Impersonate-User": user, "Impersonate-Group": "system:authenticated"}
    async with api.session.request(
        verb, api.server + path, json=body, headers=headers, params={"dryRun": "All"}
    ) as answer:
        found = await answer.json()
    return Attempt(answer.status, str(found.get("message", "")), found.get("spec"))
