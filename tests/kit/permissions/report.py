"""Every account that we ship or make, with its rights, for `kit.permissions.usage` to hold against what was asked.

`python -m kit.permissions.report FOLDER` reads the audit logs that `kit.permissions.audit_logs` kept, prints a table and fails if a
shipped right was not used, or a request was refused that no test wants refused.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kit.cluster.service_accounts import DEVELOPER, TESTED, context, offered
from kit.permissions.usage import Held, Holder, expanded, judged, read, summary, table
from quintet.apis.casconfig import SERVICE_ACCOUNT
from quintet.apis.checkup import Checkup
from quintet.apis.eventingbackend import EventingBackend
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QuintetSpec, Topology
from quintet.components import COMPONENTS, Component
from quintet.controllers.checkup.decide import desired as checkups
from quintet.controllers.eventingbackend.decide import desired as eventing
from quintet.manifests.installation import QUINTET, Flavour, installer, objects
from quintet.manifests.operator import operator_rules
from quintet.manifests.rbac import SERVICE_ACCOUNT as WHOLE_ACCOUNT
from quintet.manifests.rbac import operator_roles, policy_rule

ALL = tuple(COMPONENTS.values())
_NAMED = {"metadata": {"name": "any", "namespace": "shop", "uid": "1"}}
_A_BACKEND = msgspec.convert({**_NAMED, "spec": {"type": "nats", "config": []}}, EventingBackend)
_A_CHECKUP = msgspec.convert(
    {**_NAMED, "spec": {"image": "x", "timeoutSeconds": 1, "serviceAccountName": "a"}}, Checkup
)
DISPATCHER = eventing.role(_A_BACKEND)["rules"]
RUN = checkups.role(_A_CHECKUP, "run")["rules"]
GIVEN = {"eventing": DISPATCHER, "checkup": RUN}
# A backend names a Secret that nobody has allowed the operator to read, and its status says how to.
REFUSALS = {"eventing": frozenset({("", "secrets", "get")})}


def holders() -> list[Holder]:
    """All of them. Dispatchers are looked for last, for their accounts are named after backends."""
    parts = [_part(component) for component in ALL]
    dispatcher = Holder("dispatcher", re.compile(".+-dispatcher"), _distinct(expanded(DISPATCHER, "-")))
    return [*parts, _whole(), suite_operator(QUINTET), dispatcher, _run(), _configs()]


def _run() -> Holder:
    """The accounts that tests have checkups run as. What else they may do is up to who runs checkups."""
    # Our libraries patch; images that were written for another operator replace. A test asks for both.
    replacing = frozenset({Held("", "configmaps", "update")})
    held = tuple(each._replace(names=()) for each in expanded(RUN, "-"))
    return Holder(
        "run of a checkup", re.compile("echo|checker"), held, kept=replacing, roles=re.compile(".*")
    )


def _configs() -> Holder:
    """The account that CASConfigs act as, with the role that is offered for it.

    Tests give it other roles as well, and have it refused what it may not do.
    """
    (role,) = COMPONENTS["casconfig"].optional_roles
    held = tuple(expanded(map(policy_rule, role.permissions), "-"))
    everything = re.compile(".*")
    return Holder("configs", re.compile(SERVICE_ACCOUNT), held, roles=everything, may_be_refused=True)


def _whole() -> Holder:
    """All controllers in one process; `integration/test_permissions.py` compares it with them."""
    made = {body["kind"]: body.get("rules", []) for body in operator_roles(ALL)}
    held = (*expanded(made["ClusterRole"], WHOLE_ACCOUNT), *expanded(made["Role"], WHOLE_ACCOUNT, own=True))
    offers = [role.name for component in ALL for role in component.optional_roles]
    return Holder(
        "all in one",
        re.compile(f"{TESTED.whole}|{WHOLE_ACCOUNT}"),
        _distinct(held),
        together=True,
        roles=re.compile("|".join([DEVELOPER, *map(re.escape, offers)])),
        refusals=frozenset[tuple[str, str, str]]().union(*REFUSALS.values()),
    )


def _part(component: Component) -> Holder:
    """A controller in a process of its own."""
    name = context(component.name)
    roles = _roles(TESTED, Topology.SEPARATE, name)
    offers = [name for role in component.optional_roles for name in (role.name, offered(role.name))]
    lent = "|".join([DEVELOPER, *map(re.escape, offers)])
    return Holder(
        component.name,
        re.compile(f"(tests|quintet)-{component.name}|kiagnose-{component.name}-controller"),
        _distinct(
            (*expanded(roles["ClusterRole"], name), *expanded(roles["Role"], name, own=True)),
        ),
        given=_given(GIVEN.get(component.name, ())),
        roles=re.compile(lent),
        refusals=REFUSALS.get(component.name, frozenset()),
    )


def suite_operator(flavour: Flavour) -> Holder:
    """It holds all that it gives to controllers."""
    cluster, own = operator_rules(ALL, flavour)
    made = [
        body
        for topology in Topology
        for body in objects(installer(ALL, flavour)(QuintetSpec(topology=topology), {}))
    ]
    given = [
        _given(body["rules"], own=body["kind"] == "Role")
        for body in made
        if body["kind"] in ("ClusterRole", "Role")
    ]
    return Holder(
        "operator",
        re.compile(re.escape(flavour.operator)),
        _distinct((*expanded(cluster, flavour.operator), *expanded(own, flavour.operator, own=True))),
        given=frozenset[Held]().union(*given),
    )


def _roles(flavour: Flavour, topology: Topology, name: str) -> dict[str, list[JsonObject]]:
    made = objects(installer(ALL, flavour)(QuintetSpec(topology=topology), {}))
    found = [each for each in made if each["metadata"]["name"] == name]
    return {each["kind"]: each["rules"] for each in found if "rules" in each}


def _given(rules: Iterable[JsonObject], *, own: bool = False) -> frozenset[Held]:
    return frozenset(held._replace(names=()) for held in expanded(rules, "-", own=own))


def _distinct(held: Iterable[Held]) -> tuple[Held, ...]:
    """Two rules of one role may say the same."""

    def once() -> Iterator[Held]:
        seen: set[Held] = set()
        for each in held:
            if each not in seen:
                seen.add(each)
                yield each

    return tuple(once())


def main() -> int:
    """The table, and 1 if something in it is wrong."""
    verdicts = judged(holders(), read(Path(sys.argv[1])))
    sys.stdout.write(f"{table(verdicts)}\n\n{summary(verdicts)}\n")
    return int(any(each.unused or each.refused or each.lent for each in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
