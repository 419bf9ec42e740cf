"""Whether somebody may do something by now: the API server hears of new rights through a watch, and so later.

A test that makes rights waits here until they count: `until_may` for one right, `in_force` for whole roles.
"""

from collections.abc import Iterable, Iterator

from kit.cluster.api import Api
from kit.eventually import eventually
from quintet.apis.meta import JsonObject

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def account(namespace: str, name: str) -> str:
    """The name of a ServiceAccount as a user."""
    return f"system:serviceaccount:{namespace}:{name}"


def review(
    user: str, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = ""
) -> JsonObject:
    """The question whether a user may do something; `resource` may have a subresource behind a slash."""
    plural, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    spec = {
        "user": user,
        "groups": ["system:authenticated"],
        "resourceAttributes": {**asked, "namespace": namespace, "name": name},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


async def may(api: Api, user: str, verb: str, resource: str, **which: str) -> bool:
    """What `kubectl auth can-i` would say to a user."""
    return await _allowed(api, review(user, verb, resource, **which))


async def until_may(api: Api, user: str, verb: str, resource: str, **which: str) -> None:
    """Return once the API server knows of a right."""
    await eventually(lambda: _assert_allowed(api, review(user, verb, resource, **which)), within=60)


async def in_force(api: Api, bodies: Iterable[JsonObject]) -> None:
    """Return once the API server knows of all roles and bindings among these objects."""
    for question in questions(bodies):
        await eventually(lambda question=question: _assert_allowed(api, question), within=60)  # type: ignore[misc]


def questions(bodies: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """For each binding of an account, a review that is allowed as soon as it and its role count."""
    found = list(bodies)
    rules = {_key(body): body["rules"] for body in found if body["kind"] in ("Role", "ClusterRole")}
    for binding in found:
        namespace = binding["metadata"].get("namespace", "")
        role = binding.get("roleRef", {})
        where = namespace if role.get("kind") == "Role" else ""
        named = [
            each for each in rules.get((role.get("kind"), where, role.get("name")), ()) if "resources" in each
        ]
        for subject in binding.get("subjects", ()) if named else ():
            yield _about(named[-1], account(subject["namespace"], subject["name"]), namespace)


def _about(rule: JsonObject, user: str, namespace: str) -> JsonObject:
    (group, *_), (resource, *_), (verb, *_) = rule["apiGroups"], rule["resources"], rule["verbs"]
    name = rule.get("resourceNames", [""])[0]
    return review(user, verb, resource, group=group, namespace=namespace, name=name)


def _key(body: JsonObject) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]


async def _allowed(api: Api, question: JsonObject) -> bool:
    return bool((await api.create(REVIEWS, question))["status"]["allowed"])


async def _assert_allowed(api: Api, question: JsonObject) -> None:
    assert await _allowed(api, question), f"not yet: {question['spec']}"
