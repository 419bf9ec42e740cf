"""The ServiceAccounts and roles of an installation, so that operators in tests have exactly the shipped permissions.

`install` creates them on a control plane and adds a context for each to its kubeconfig; a `FaultProxy` offers the
same contexts. They belong to a flavour of their own, so that the suite operator can be tested on the same cluster.
A missing permission fails a test; `kit.permissions.usage` finds permissions that no test needs.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from kit.cluster.access_reviews import REVIEWS, reviews_of_bindings
from quintet.admission.registration import GROUP, LOCAL_NAME, MUTATING, VALIDATING
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QuintetSpec, Topology
from quintet.components import COMPONENTS
from quintet.controllers.suite.decide.installation import BY_KIND, MANAGED_BY, key_of
from quintet.local.api import Api
from quintet.local.cluster import Cluster
from quintet.local.errors import LocalError
from quintet.local.process import wait_until
from quintet.manifests.installation import Flavour, installer, objects
from quintet.manifests.manager import namespace
from quintet.manifests.rbac import GROUP as RBAC
from quintet.manifests.rbac import optional_roles

TESTED = Flavour(name="tests", namespace="quintet-tests", whole="tests", part="tests-{}")
KINDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
DEVELOPER = "tests-developer"
"""The role that a developer needs in addition to run a controller locally with `--webhooks url`."""
SECONDS = 24 * 3600


def context(*controllers: str) -> str:
    """Return the kubeconfig context for a process with these controllers."""
    return TESTED.part.format(controllers[0]) if len(controllers) == 1 else TESTED.whole


def shipped_rbac_objects() -> Iterator[JsonObject]:
    """Yield the ServiceAccounts, roles and bindings of an installation in both topologies."""
    install = installer(tuple(COMPONENTS.values()), TESTED)
    for topology in Topology:
        made = objects(install(QuintetSpec(topology=topology), {}))
        yield from (_without_managed_by_label(body) for body in made if body["kind"] in KINDS)


def _without_managed_by_label(body: JsonObject) -> JsonObject:
    """Return the object without the label by which suite tests find owned objects."""
    labels = {name: value for name, value in body["metadata"]["labels"].items() if name != MANAGED_BY}
    return {**body, "metadata": {**body["metadata"], "labels": labels}}


def optional_role_name(name: str) -> str:
    """Return the name of an optional role in this flavour."""
    return TESTED.part.format(name)


def _optional_roles() -> Iterator[JsonObject]:
    for role in optional_roles(COMPONENTS.values()):
        yield {**role, "metadata": {**role["metadata"], "name": optional_role_name(role["metadata"]["name"])}}


def role_binding(role: str, account: str, namespace: str, *, of: str = TESTED.namespace) -> JsonObject:
    """Return a RoleBinding that grants a role in a namespace to a ServiceAccount of namespace `of`."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
    }


def install(cluster: Cluster) -> None:
    """Create the ServiceAccounts and a kubeconfig context for each."""
    api = Api(cluster.directory, cluster.port)
    api.create("/api/v1/namespaces", namespace(TESTED.namespace))
    bodies = [*shipped_rbac_objects()]
    names = [body["metadata"]["name"] for body in bodies if body["kind"] == "ServiceAccount"]
    bodies += _developer_role(names)
    for body in (*bodies, *_optional_roles()):
        api.create(BY_KIND[body["kind"]].path(key_of(body).namespace), body)
    tokens = {name: create_token(api, TESTED.namespace, name) for name in names}
    config = json.loads(cluster.kubeconfig.read_text())
    add_contexts(config, tokens)
    cluster.kubeconfig.write_text(json.dumps(config))
    late = LocalError(
        "the roles of the ServiceAccounts do not take effect", "check the log of the API server"
    )
    asked = [*reviews_of_bindings(bodies)]
    wait_until(lambda: all(_is_allowed(api, each) for each in asked), 60.0, lambda: late)


def create_token(api: Api, namespace: str, name: str) -> str:
    """Create a token for a ServiceAccount."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    made = api.request("POST", path, {"spec": {"expirationSeconds": SECONDS}})
    return str(made["status"]["token"])


def add_contexts(config: JsonObject, tokens: dict[str, str]) -> None:
    """Add a user and a context per token to a kubeconfig; the current context stays."""
    (place,) = (each["name"] for each in config["clusters"])
    for name, secret in tokens.items():
        config["users"].append({"name": name, "user": {"token": secret}})
        config["contexts"].append({"name": name, "context": {"cluster": place, "user": name}})


def context_tokens(config: JsonObject) -> dict[str, str]:
    """Return the tokens of the other contexts of a kubeconfig by context name."""
    users = {each["name"]: each["user"].get("token", "") for each in config["users"]}
    others = (each for each in config["contexts"] if each["name"] != config["current-context"])
    return {each["name"]: users[each["context"]["user"]] for each in others}


def write_kubeconfig_for(secret: str, kubeconfig: Path, path: Path) -> Path:
    """Write a kubeconfig for the same cluster with this token only."""
    config = json.loads(kubeconfig.read_text())
    user = config["contexts"][0]["context"]["user"]
    config["users"] = [{"name": user, "user": {"token": secret}}]
    config["contexts"] = config["contexts"][:1]
    path.write_text(json.dumps(config))
    return path


def _developer_role(names: list[str]) -> list[JsonObject]:
    rule = {
        "apiGroups": [GROUP],
        "resources": [MUTATING.plural, VALIDATING.plural],
        "resourceNames": [LOCAL_NAME],
        "verbs": ["get", "create", "patch", "delete"],
    }
    common: JsonObject = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": DEVELOPER}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": DEVELOPER}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": TESTED.namespace} for name in names]
    return [
        {**common, "kind": "ClusterRole", "rules": [rule]},
        {**common, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
    ]


def _is_allowed(api: Api, question: JsonObject) -> bool:
    return bool(api.request("POST", REVIEWS, question)["status"]["allowed"])
