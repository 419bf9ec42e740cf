"""The ServiceAccounts that we ship or create, with their permissions, and the report of what they used.

`python -m kit.permissions.report FOLDER` reads the audit logs of a run, prints a table, and fails if a shipped
permission was not used or a request was forbidden unexpectedly.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from kit.cluster.service_accounts import DEVELOPER, TESTED, context, optional_role_name
from kit.permissions.usage import Permission, Subject, compare, expand_rules, read, summary, table
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
# A test references a Secret that the operator cannot read; the status reports the needed binding.
REFUSALS = {"eventing": frozenset({("", "secrets", "get")})}


def list_subjects() -> list[Subject]:
    """Return all subjects. Dispatchers come last, because their ServiceAccounts are named after backends."""
    parts = [_controller_subject(component) for component in ALL]
    dispatcher = Subject("dispatcher", re.compile(".+-dispatcher"), _distinct(expand_rules(DISPATCHER, "-")))
    return [
        *parts,
        _combined_subject(),
        suite_operator(QUINTET),
        dispatcher,
        _checkup_subject(),
        _casconfig_subject(),
    ]


def _checkup_subject() -> Subject:
    """The ServiceAccounts that tests use for checkups; the author of a checkup decides on other permissions."""
    # Our libraries patch; images that were written for another operator replace. A test asks for both.
    replacing = frozenset({Permission("", "configmaps", "update")})
    held = tuple(each._replace(names=()) for each in expand_rules(RUN, "-"))
    return Subject(
        "run of a checkup", re.compile("echo|checker"), held, kept=replacing, roles=re.compile(".*")
    )


def _casconfig_subject() -> Subject:
    """The ServiceAccount that CASConfigs act as, with the optional role for it.

    Tests give it other roles too, and expect forbidden requests.
    """
    (role,) = COMPONENTS["casconfig"].optional_roles
    held = tuple(expand_rules(map(policy_rule, role.permissions), "-"))
    everything = re.compile(".*")
    return Subject("configs", re.compile(SERVICE_ACCOUNT), held, roles=everything, may_be_refused=True)


def _combined_subject() -> Subject:
    """All controllers in one process; `integration/test_permissions.py` compares it with the single controllers."""
    made = {body["kind"]: body.get("rules", []) for body in operator_roles(ALL)}
    held = (
        *expand_rules(made["ClusterRole"], WHOLE_ACCOUNT),
        *expand_rules(made["Role"], WHOLE_ACCOUNT, own=True),
    )
    offers = [role.name for component in ALL for role in component.optional_roles]
    return Subject(
        "all in one",
        re.compile(f"{TESTED.whole}|{WHOLE_ACCOUNT}"),
        _distinct(held),
        together=True,
        roles=re.compile("|".join([DEVELOPER, *map(re.escape, offers)])),
        refusals=frozenset[tuple[str, str, str]]().union(*REFUSALS.values()),
    )


def _controller_subject(component: Component) -> Subject:
    """A controller in its own process."""
    name = context(component.name)
    roles = _roles(TESTED, Topology.SEPARATE, name)
    offers = [
        name for role in component.optional_roles for name in (role.name, optional_role_name(role.name))
    ]
    lent = "|".join([DEVELOPER, *map(re.escape, offers)])
    return Subject(
        component.name,
        re.compile(f"(tests|quintet)-{component.name}|kiagnose-{component.name}-controller"),
        _distinct(
            (*expand_rules(roles["ClusterRole"], name), *expand_rules(roles["Role"], name, own=True)),
        ),
        given=_granted_permissions(GIVEN.get(component.name, ())),
        roles=re.compile(lent),
        refusals=REFUSALS.get(component.name, frozenset()),
    )


def suite_operator(flavour: Flavour) -> Subject:
    """The suite operator, which holds all permissions that it grants to controllers."""
    cluster, own = operator_rules(ALL, flavour)
    made = [
        body
        for topology in Topology
        for body in objects(installer(ALL, flavour)(QuintetSpec(topology=topology), {}))
    ]
    given = [
        _granted_permissions(body["rules"], own=body["kind"] == "Role")
        for body in made
        if body["kind"] in ("ClusterRole", "Role")
    ]
    return Subject(
        "operator",
        re.compile(re.escape(flavour.operator)),
        _distinct((*expand_rules(cluster, flavour.operator), *expand_rules(own, flavour.operator, own=True))),
        given=frozenset[Permission]().union(*given),
    )


def _roles(flavour: Flavour, topology: Topology, name: str) -> dict[str, list[JsonObject]]:
    made = objects(installer(ALL, flavour)(QuintetSpec(topology=topology), {}))
    found = [each for each in made if each["metadata"]["name"] == name]
    return {each["kind"]: each["rules"] for each in found if "rules" in each}


def _granted_permissions(rules: Iterable[JsonObject], *, own: bool = False) -> frozenset[Permission]:
    return frozenset(held._replace(names=()) for held in expand_rules(rules, "-", own=own))


def _distinct(held: Iterable[Permission]) -> tuple[Permission, ...]:
    """Return the permissions without duplicates."""

    def once() -> Iterator[Permission]:
        seen: set[Permission] = set()
        for each in held:
            if each not in seen:
                seen.add(each)
                yield each

    return tuple(once())


def main() -> int:
    """Print the report and return 1 if it has an error."""
    verdicts = compare(list_subjects(), read(Path(sys.argv[1])))
    sys.stdout.write(f"{table(verdicts)}\n\n{summary(verdicts)}\n")
    return int(any(each.unused or each.refused or each.lent for each in verdicts))


if __name__ == "__main__":
    raise SystemExit(main())
