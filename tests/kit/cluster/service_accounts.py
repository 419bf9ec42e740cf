"""Operators in tests are who they are when installed: accounts with exactly the roles that we ship.

`install` makes them on a control plane and adds a context for each to its kubeconfig; a `FaultProxy` offers
the same contexts. The names are of a flavour of their own, beside which the suite operator can be tested.
A right that a role lacks is a failing test, and `kit.permissions.usage` finds the rights that no test needs.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from kit.cluster.access_reviews import REVIEWS, questions
from quintet.admission.registration import GROUP, LOCAL_NAME, MUTATING, VALIDATING
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QuintetSpec, Topology
from quintet.components import COMPONENTS
from quintet.controllers.suite.decide.parts import BY_KIND, MANAGED_BY, key_of
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
"""What somebody needs beyond a controller's rights to run it on his own machine with `--webhooks url`."""
SECONDS = 24 * 3600


def context(*controllers: str) -> str:
    """The context of a kubeconfig for a process with these controllers."""
    return TESTED.part.format(controllers[0]) if len(controllers) == 1 else TESTED.whole


def shipped() -> Iterator[JsonObject]:
    """The accounts and roles of an installation, in both topologies."""
    install = installer(tuple(COMPONENTS.values()), TESTED)
    for topology in Topology:
        made = objects(install(QuintetSpec(topology=topology), {}))
        yield from (_own(body) for body in made if body["kind"] in KINDS)


def _own(body: JsonObject) -> JsonObject:
    """Not the suite operator's: its tests count what it made, by this label."""
    labels = {name: value for name, value in body["metadata"]["labels"].items() if name != MANAGED_BY}
    return {**body, "metadata": {**body["metadata"], "labels": labels}}


def offered(name: str) -> str:
    """How a role that is offered to administrators is called beside these accounts."""
    return TESTED.part.format(name)


def _offers() -> Iterator[JsonObject]:
    for role in optional_roles(COMPONENTS.values()):
        yield {**role, "metadata": {**role["metadata"], "name": offered(role["metadata"]["name"])}}


def binding(role: str, account: str, namespace: str, *, of: str = TESTED.namespace) -> JsonObject:
    """What an administrator makes to let an account (`of` a namespace) use a role in a namespace."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": of}],
    }


def install(cluster: Cluster) -> None:
    """Make the accounts, and a context for each in the cluster's kubeconfig."""
    api = Api(cluster.directory, cluster.port)
    api.create("/api/v1/namespaces", namespace(TESTED.namespace))
    bodies = [*shipped()]
    names = [body["metadata"]["name"] for body in bodies if body["kind"] == "ServiceAccount"]
    bodies += _developer(names)
    for body in (*bodies, *_offers()):
        api.create(BY_KIND[body["kind"]].path(key_of(body).namespace), body)
    tokens = {name: token(api, TESTED.namespace, name) for name in names}
    config = json.loads(cluster.kubeconfig.read_text())
    add_contexts(config, tokens)
    cluster.kubeconfig.write_text(json.dumps(config))
    late = LocalError(
        "the roles of the accounts do not come into force", "look into the log of the API server"
    )
    asked = [*questions(bodies)]
    wait_until(lambda: all(_allowed(api, each) for each in asked), 60.0, lambda: late)


def token(api: Api, namespace: str, name: str) -> str:
    """What proves to be an account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    made = api.request("POST", path, {"spec": {"expirationSeconds": SECONDS}})
    return str(made["status"]["token"])


def add_contexts(config: JsonObject, tokens: dict[str, str]) -> None:
    """Let a kubeconfig be used as others as well; who it is for by itself stays."""
    (place,) = (each["name"] for each in config["clusters"])
    for name, secret in tokens.items():
        config["users"].append({"name": name, "user": {"token": secret}})
        config["contexts"].append({"name": name, "context": {"cluster": place, "user": name}})


def tokens(config: JsonObject) -> dict[str, str]:
    """Who else a kubeconfig can be used as."""
    users = {each["name"]: each["user"].get("token", "") for each in config["users"]}
    others = (each for each in config["contexts"] if each["name"] != config["current-context"])
    return {each["name"]: users[each["context"]["user"]] for each in others}


def write_kubeconfig_for(secret: str, kubeconfig: Path, path: Path) -> Path:
    """The same cluster, as the owner of a token and nobody else."""
    config = json.loads(kubeconfig.read_text())
    user = config["contexts"][0]["context"]["user"]
    config["users"] = [{"name": user, "user": {"token": secret}}]
    config["contexts"] = config["contexts"][:1]
    path.write_text(json.dumps(config))
    return path


def _developer(names: list[str]) -> list[JsonObject]:
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


def _allowed(api: Api, question: JsonObject) -> bool:
    return bool(api.request("POST", REVIEWS, question)["status"]["allowed"])
