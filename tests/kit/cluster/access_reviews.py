"""Access reviews: whether a user has a permission, and waiting until the API server applies RBAC changes.

The API server learns of roles and bindings through a watch. Tests that create them wait with `wait_until_allowed`
for one permission or `wait_for_permissions` for whole roles.
"""

from collections.abc import Iterable, Iterator

from kit.cluster.api import Api
from kit.eventually import eventually
from quintet.apis.meta import JsonObject

REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def service_account_user(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{name}"


def access_review(
    user: str, verb: str, resource: str, *, group: str = "", namespace: str = "", name: str = ""
) -> JsonObject:
    """Return a SubjectAccessReview; `resource` may include a subresource, such as `pods/log`."""
    plural, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    spec = {
        "user": user,
        "groups": ["system:authenticated"],
        "resourceAttributes": {**asked, "namespace": namespace, "name": name},
    }
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


async def is_allowed(api: Api, user: str, verb: str, resource: str, **which: str) -> bool:
    """Return what `kubectl auth can-i` would report for a user."""
    return await _send_review(api, access_review(user, verb, resource, **which))


async def wait_until_allowed(api: Api, user: str, verb: str, resource: str, **which: str) -> None:
    """Wait until the API server grants a permission."""
    await eventually(lambda: _assert_allowed(api, access_review(user, verb, resource, **which)), within=60)


async def wait_for_permissions(api: Api, bodies: Iterable[JsonObject]) -> None:
    """Wait until the API server applies all roles and bindings among these objects."""
    for question in reviews_of_bindings(bodies):
        await eventually(lambda question=question: _assert_allowed(api, question), within=60)  # type: ignore[misc]


def reviews_of_bindings(bodies: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield one review per binding of a ServiceAccount, allowed once the binding and its role are applied."""
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
            yield _review_of_rule(
                named[-1], service_account_user(subject["namespace"], subject["name"]), namespace
            )


def _review_of_rule(rule: JsonObject, user: str, namespace: str) -> JsonObject:
    (group, *_), (resource, *_), (verb, *_) = rule["apiGroups"], rule["resources"], rule["verbs"]
    name = rule.get("resourceNames", [""])[0]
    return access_review(user, verb, resource, group=group, namespace=namespace, name=name)


def _key(body: JsonObject) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]


async def _send_review(api: Api, question: JsonObject) -> bool:
    return bool((await api.create(REVIEWS, question))["status"]["allowed"])


async def _assert_allowed(api: Api, question: JsonObject) -> None:
    assert await _send_review(api, question), f"not yet: {question['spec']}"
