"""The reference of reasons: complete, and with links that exist."""

import enum
import importlib
import pkgutil
from pathlib import Path

import pytest

import quintet.controllers
from quintet import kinds
from quintet.inspect.kinds import all_kinds
from quintet.inspect.reasons import all_reasons, find_page, find_reason, kind_page
from quintet.manifests.reasons import read_reasons
from quintet.runtime.reconciler import INTERNAL_ERROR

ROOT = Path(__file__).parents[3]
KINDS = {
    "jsonserver": ("JsonServer",),
    "checkup": ("Checkup",),
    "casconfig": ("CASConfig",),
    "statefulcluster": ("StatefulCluster",),
    "eventingbackend": ("EventingBackend",),
    "subscription": ("Subscription",),
    "suite": ("Quintet",),
    # Why the pods of a Deployment do not run.
    "decide": ("JsonServer",),
}
"""The kinds of each folder of controllers."""


def reasons_in_code():
    """The members of every enumeration of reasons, with the kinds that have them."""
    found = set()
    for module in pkgutil.walk_packages(quintet.controllers.__path__, "quintet.controllers."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, type) and issubclass(each, enum.StrEnum) and each.__name__.endswith("Reason"):
                folder = each.__module__.split(".")[2]
                found |= {(kind, str(member.value)) for kind in KINDS[folder] for member in each}
    return found


def test_every_reason_of_the_code_is_documented():
    found = reasons_in_code()
    assert len(found) > 100
    assert {(kind, reason) for kind, reason in found if find_reason(kind, reason) is None} == set()


def test_every_kind_has_documented_reasons_and_the_one_of_unexpected_errors():
    assert {each.kind for each in all_reasons()} == {each.name for each in kinds.all_kinds()} | {""}
    for each in kinds.all_kinds():
        assert find_page(each.name, INTERNAL_ERROR) == "docs/troubleshooting.md#internalerror"


def test_links_of_reasons_lead_to_sections_that_exist():
    for each in all_reasons():
        path, _, anchor = each.link.partition("#")
        titles = [line.lstrip("# ") for line in (ROOT / path).read_text().splitlines() if line[:1] == "#"]
        assert anchor in {title.lower().replace(" ", "-").replace("`", "") for title in titles}, each


def test_reason_of_several_conditions_is_that_of_the_condition():
    text = (
        "## Status\n\n| condition | reason | meaning | what to do |\n|---|---|---|---|\n"
        "| `Ready` | `Waiting`, `Late` | not yet | wait |\n| | `Broken` | it is [broken](x.md) | mend it |\n"
        "| `Synced` | `Waiting` | being written | |\n"
    )
    found = list(read_reasons("Thing", Path("docs/thing.md"), text))
    assert [(each["condition"], each["reason"], each["action"]) for each in found] == [
        ("Ready", "Waiting", "wait"),
        ("Ready", "Late", "wait"),
        ("Ready", "Broken", "mend it"),
        ("Synced", "Waiting", ""),
    ]
    assert {each["link"] for each in found} == {"docs/thing.md#status"}


def test_reason_of_several_words_is_found():
    found = find_reason("EventingBackend", "Secret not found")
    assert found is not None
    assert found.action == "create the Secret that the config names"


@pytest.mark.parametrize("kind", all_kinds(), ids=lambda kind: kind.resource.kind)
def test_page_of_an_unlisted_reason_is_the_page_of_the_kind(kind):
    assert find_page(kind.resource.kind, "Unheard") == kind_page(kind.resource.kind)
    assert (ROOT / kind_page(kind.resource.kind)).is_file()
