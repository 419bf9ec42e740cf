"""Every role in every file that we ship, and those that controllers make: nobody is given too much."""

import re
from pathlib import Path
from typing import Any

import pytest

from kit.manifests import yamltext
from kit.permissions.report import DISPATCHER, RUN
from quintet.apis.suite import QuintetSpec, Topology
from quintet.components import COMPONENTS
from quintet.manifests.installation import FLAVOURS, installer, objects

ROOT = Path(__file__).parents[3]
FOLDERS = ("config", "charts", "bundle")
OFFERED = {"quintet-eventing-secrets": {"get"}}
"""Roles on Secrets that somebody may bind in a namespace."""
Rule = dict[str, Any]


def documents(path: Path) -> list[dict[str, Any]]:
    """What is in a file; of a template of Helm, what does not depend on values."""
    content = path.read_text()
    if "Role" not in content and "ClusterServiceVersion" not in content:
        return []  # definitions are large
    lines = [line for line in content.splitlines() if not re.fullmatch(r"\s*\{\{-.*\}\}", line)]
    text = re.sub(r"\{\{.*?\}\}", "value", "\n".join(lines))
    return [each for each in yamltext.load_all(text) if isinstance(each, dict) and "kind" in each]


def shipped() -> list[tuple[str, dict[str, Any]]]:
    """Every object of every file, and of every installation that the operator makes."""
    found = [
        (str(path.relative_to(ROOT)), body)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.yaml"))
        for body in documents(path)
    ]
    for flavour in FLAVOURS.values():
        install = installer(tuple(COMPONENTS.values()), flavour)
        for topology in Topology:
            made = objects(install(QuintetSpec(topology=topology), {}))
            found += [(f"made by {flavour.operator}, {topology}", body) for body in made]
    return found


SHIPPED = shipped()


def _permissions(body: dict[str, Any], name: str) -> list[Rule]:
    granted = body["spec"]["install"]["spec"].get(name, [])
    return [rule for each in granted for rule in each["rules"]]


def roles() -> list[tuple[str, bool, list[Rule]]]:
    """Where each role is from, whether it is for the whole cluster, and its rules."""
    found = [("of dispatchers", False, DISPATCHER), ("of a run of a checkup", False, RUN)]
    for where, body in SHIPPED:
        if body["kind"] in ("Role", "ClusterRole"):
            name = f"{where}: {body['metadata']['name']}"
            found.append((name, body["kind"] == "ClusterRole", body["rules"] or []))
        if body["kind"] == "ClusterServiceVersion":
            found.append((f"{where}: everywhere", True, _permissions(body, "clusterPermissions")))
            found.append((f"{where}: at home", False, _permissions(body, "permissions")))
    return found


ROLES = roles()
EVERY = pytest.mark.parametrize(("where", "everywhere", "rules"), ROLES, ids=[where for where, *_ in ROLES])


def test_roles_of_every_install_method_are_checked():
    found = {where.split("/")[0].split(" ")[0] for where, *_ in ROLES}
    assert {*FOLDERS, "made", "of"} <= found
    for where in (
        "config/default",
        "config/operator",
        "config/kiagnose",
        "charts/quintet",
        "bundle/manifests",
    ):
        assert any(each.startswith(where) for each, *_ in ROLES), where


@EVERY
def test_no_role_has_wildcard_or_escalation(where, everywhere, rules):
    assert rules
    for rule in rules:
        words = {*rule.get("apiGroups", []), *rule.get("resources", []), *rule["verbs"]}
        assert not any("*" in word for word in words), rule
        assert rule.get("nonResourceURLs", []) in ([], ["/metrics"]), rule
        assert {"escalate", "bind", "approve", "sign"}.isdisjoint(rule["verbs"]), rule
        if "impersonate" in rule["verbs"]:
            assert (rule["resources"], rule.get("resourceNames")) == (["serviceaccounts"], ["casconfig"]), (
                rule
            )
        dangerous = {"pods/exec", "pods/attach", "pods/portforward", "nodes/proxy", "serviceaccounts/token"}
        assert dangerous.isdisjoint(rule.get("resources", [])), rule


@EVERY
def test_only_optional_cluster_roles_access_secrets(where, everywhere, rules):
    verbs = {verb for rule in rules if "secrets" in rule.get("resources", []) for verb in rule["verbs"]}
    if everywhere:
        assert verbs == OFFERED.get(where.rpartition(": ")[2], set())
    else:
        assert verbs <= {"get", "patch", "create"}


def test_optional_and_user_roles_are_not_bound():
    for where, body in SHIPPED:
        if body["kind"] in ("ClusterRoleBinding", "RoleBinding") and "samples" not in where:
            role = body["roleRef"]["name"]
            assert role == body["subjects"][0]["name"], (
                f"{where}: an account is bound to the role of its name"
            )
            assert not role.endswith(("-viewer", "-editor", "-admin")), where
            assert role not in OFFERED, where


def test_every_bound_role_is_shipped():
    shipped = {body["metadata"]["name"] for _, body in SHIPPED if body["kind"] in ("Role", "ClusterRole")}
    for where, body in SHIPPED:
        if body["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            assert body["roleRef"]["name"] in shipped, where
