"""The declared rights → the page of the documentation that lists each with its reason. Called by `files`."""

from collections.abc import Iterable, Sequence

from quintet.components import Component
from quintet.controllers.checkup.desired import RESULT_VERBS
from quintet.controllers.eventingbackend.desired import DISPATCHER_VERBS, EVENT_VERBS
from quintet.controllers.rights import Right
from quintet.controllers.suite.rbac import RIGHTS
from quintet.manifests.catalog import HEADER

INTRODUCTION = """\
# Rights

Every account of Quintet, every right that it has, and what for. Roles are made of these
declarations (`src/quintet/controllers/<kind>/rbac.py`). There is no wildcard, no `escalate`, no
`bind`, and no right on the Secrets of a cluster.

**Rights equal use.** In tests every controller runs as its account with the shipped role and
nothing else, on an API server that enforces it: a right that is missing is a failing test.
`make test-all` runs the tests on clusters with an audit log and compares what was asked for with the roles.
It prints each right with the number of requests that needed it, fails if one was needed by none,
and names every request that was refused. Two sorts of rights are in no request of their own: those
that are held because they are given to others, and `update` on `finalizers`, which the API server
asks for when a child names its owner (a test takes it away and sees the child refused).
"""
_PROCESS = (
    Right(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update", "create"),
        "to lead; of its own name, in its own namespace",
    ),
    Right(
        "",
        ("secrets",),
        ("get", "patch", "create"),
        "its certificates; get and patch of its own name, all in its own namespace",
    ),
    Right(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("get", "patch"),
        "to have the API server ask it; of its own name; without the operator also `create`",
    ),
)
_DISPATCHER = (
    Right("eventing.kyma-project.io", ("subscriptions",), DISPATCHER_VERBS, "to know what goes where"),
    Right("events.k8s.io", ("events",), EVENT_VERBS, "to tell users of events that cannot be delivered"),
)
_RUN = (Right("", ("configmaps",), RESULT_VERBS, "to write its results; the one that was made for this run"),)
_OPERATOR = """\
Beyond these it holds what it gives to the controllers above, and may make, change and remove the
objects of an installation: `list`, `watch` and `create` of their types, `get`, `patch` and `delete`
of exactly their names. Definitions it may not delete.
"""


def rights_page(components: Sequence[Component]) -> str:
    """The whole page."""
    parts = [_section(f"Controller {each.name}", each.rights) for each in components]
    offers = [offer for component in components for offer in component.offers]
    offered = [_section(f"Offered: {offer.name}", offer.rights, _OFFERED) for offer in offers]
    return "\n".join(
        [
            HEADER + INTRODUCTION,
            *parts,
            _section("Every process with controllers", _PROCESS),
            _section(
                "Dispatchers",
                _DISPATCHER,
                "In the namespace of their backend. Pods of publisher proxies have no token.\n",
            ),
            _section(
                "A run of a checkup",
                _RUN,
                "For the ServiceAccount that the Checkup names, in its namespace.\n",
            ),
            _section("Suite operator", RIGHTS, _OPERATOR),
            *offered,
            _PEOPLE,
        ]
    )


_OFFERED = "Nobody has it until an administrator binds it in a namespace.\n"
_PEOPLE = """\
## People

For each kind: `KIND-viewer` (`get`, `list`, `watch`), `KIND-editor` (all verbs; of the status only
`get`) and `KIND-admin` (also `update` on `finalizers`). The cluster's roles `view`, `edit` and
`admin` take them in; the Quintet itself is for cluster administrators, so only its viewer is taken
in. Some fields take [rights of their own](../SECURITY.md#trust-model).
"""


def _section(title: str, rights: Iterable[Right], note: str = "") -> str:
    rows = "\n".join(map(_row, rights))
    return (
        f"## {title}\n\n{note}{chr(10) if note else ''}| verbs | resources | why |\n|---|---|---|\n{rows}\n"
    )


def _row(right: Right) -> str:
    names = f" called {', '.join(f'`{name}`' for name in right.names)}" if right.names else ""
    resources = ", ".join(f"`{_qualified(right.group, each)}`" for each in right.resources)
    return f"| {', '.join(right.verbs)} | {resources}{names} | {right.why} |"


def _qualified(group: str, resource: str) -> str:
    kind, slash, part = resource.partition("/")
    return f"{kind}.{group}{slash}{part}" if group else resource
