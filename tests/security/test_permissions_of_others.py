"""What roles for users and tokens of our processes do not allow, asked of a real API server."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kit.cluster.access_reviews import is_allowed, service_account_user, wait_until_allowed
from kit.cluster.api import Api
from kit.cluster.service_accounts import TESTED, context
from quintet import kinds
from quintet.components import COMPONENTS
from quintet.kinds import Kind, load
from security.attempts import bind_role

KINDS = [kind for kind in kinds.all_kinds() if kind.component]
RBAC = "rbac.authorization.k8s.io"
WRITES = ("create", "update", "patch", "delete", "deletecollection")
AT_ONCE = 16


@dataclass(frozen=True)
class Attack:
    """One thing that a user tries."""

    verb: str
    resource: str
    group: str = ""
    name: str = ""
    elsewhere: bool = False
    """Whether it is tried in another namespace than that of the user."""


TAKEOVER = [
    Attack("get", "secrets"),
    Attack("list", "secrets"),
    Attack("create", "serviceaccounts/token"),
    Attack("create", "pods/exec"),
    Attack("create", "pods/attach"),
    Attack("create", "pods/portforward"),
    Attack("create", "pods/ephemeralcontainers"),
    Attack("update", "pods/ephemeralcontainers"),
    Attack("impersonate", "users"),
    Attack("impersonate", "groups"),
    Attack("impersonate", "serviceaccounts", name="default"),
    Attack("create", "clusterroles", RBAC),
    Attack("update", "clusterroles", RBAC),
    Attack("escalate", "clusterroles", RBAC),
    Attack("bind", "clusterroles", RBAC),
    Attack("create", "clusterrolebindings", RBAC),
    Attack("escalate", "roles", RBAC),
    Attack("bind", "roles", RBAC),
    Attack("patch", "nodes"),
    Attack("get", "nodes/proxy"),
    Attack("create", "nodes/proxy"),
    Attack("delete", "namespaces"),
    Attack("patch", "namespaces"),
    Attack("update", "customresourcedefinitions", "apiextensions.k8s.io"),
    Attack("patch", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
    Attack("delete", "validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    Attack("patch", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", "of-somebody-else"),
    Attack("update", "certificatesigningrequests/approval", "certificates.k8s.io"),
    Attack("create", "quintets", "quintet.dev"),
    Attack("patch", "quintets", "quintet.dev", "quintet"),
    Attack("get", "configmaps", elsewhere=True),
    Attack("create", "pods", elsewhere=True),
    Attack("create", "deployments", "apps", elsewhere=True),
    Attack("create", "statefulsets", "apps", elsewhere=True),
    Attack("create", "jobs", "batch", elsewhere=True),
    Attack("create", "roles", RBAC, elsewhere=True),
    Attack("create", "rolebindings", RBAC, elsewhere=True),
    Attack("delete", "persistentvolumeclaims", elsewhere=True),
    Attack("delete", "pods", elsewhere=True),
    Attack("impersonate", "serviceaccounts", name="casconfig", elsewhere=True),
]


def attacks_of_viewers() -> Iterator[tuple[Kind, Attack]]:
    """Yield every write to a kind, its status, scale and finalizers."""
    for kind in KINDS:
        resource = load(kind.declaration).resource
        for verb in WRITES:
            yield kind, Attack(verb, resource.plural, resource.group)
        for part in ("status", "scale", "finalizers"):
            yield kind, Attack("update", f"{resource.plural}/{part}", resource.group)


def attacks_of_editors() -> Iterator[tuple[Kind, Attack]]:
    """Yield writes to the status, to all other kinds, and all takeovers."""
    for kind in KINDS:
        resource = load(kind.declaration).resource
        yield kind, Attack("update", f"{resource.plural}/status", resource.group)
        yield kind, Attack("patch", f"{resource.plural}/status", resource.group)
        yield kind, Attack("create", resource.plural, resource.group, elsewhere=True)
        for other in KINDS:
            if other is not kind:
                theirs = load(other.declaration).resource
                yield kind, Attack("create", theirs.plural, theirs.group)
        for attack in TAKEOVER:
            yield kind, attack


async def _succeeded(api: Api, attacks: list[tuple[str, Attack]], namespace: str) -> list[str]:
    """Return the attacks that the API server allows."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def ask(user: str, attack: Attack) -> str:
        where = "default" if attack.elsewhere else namespace
        async with slots:
            allowed = await is_allowed(
                api, user, attack.verb, attack.resource, group=attack.group, namespace=where, name=attack.name
            )
        return f"{user}: {attack.verb} {attack.resource} {attack.name}".strip() if allowed else ""

    return [each for each in await asyncio.gather(*(ask(*each) for each in attacks)) if each]


@pytest.mark.parametrize(
    ("role", "verb", "attacks"),
    [("viewer", "list", [*attacks_of_viewers()]), ("editor", "create", [*attacks_of_editors()])],
    ids=["viewer", "editor"],
)
async def test_role_of_one_kind_allows_nothing_else(role, verb, attacks, installed, api: Api, namespace: str):
    for kind in KINDS:
        resource, user = load(kind.declaration).resource, f"{role}-of-{kind.name.lower()}"
        await bind_role(api, namespace, user, f"{kind.name.lower()}-{role}")
        await wait_until_allowed(api, user, verb, resource.plural, group=resource.group, namespace=namespace)
    tried = [(f"{role}-of-{kind.name.lower()}", attack) for kind, attack in attacks]
    assert await _succeeded(api, tried, namespace) == []
    assert len(tried) >= 40, "too few attacks"


ALLOWED = {
    "jsonserver": ("get configmaps", "create deployments"),
    "checkup": ("get configmaps", "create jobs", "create roles", "create rolebindings"),
    "casconfig": ("impersonate serviceaccounts casconfig",),
    "statefulcluster": ("create pods", "delete pods", "delete persistentvolumeclaims"),
    "eventing": ("create deployments", "create statefulsets", "create roles", "create rolebindings"),
}
"""What the work of a controller needs; SECURITY.md tells what a stolen token can do with it."""


@pytest.mark.parametrize("controller", COMPONENTS)
async def test_stolen_token_of_a_controller_allows_only_its_work(
    controller, installed, api: Api, namespace: str
):
    user = service_account_user(TESTED.namespace, context(controller))
    found = await _succeeded(api, [(user, attack) for attack in TAKEOVER], namespace)
    assert sorted(found) == sorted(f"{user}: {each}" for each in ALLOWED[controller])
