"""The checks before an installation. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from quintet.apis.meta import JsonObject, Resource
from quintet.apis.text import shorten_list
from quintet.controllers.suite.decide.safety import describe_unused, is_wider, unsafe_changes
from quintet.install.doctor.findings import FAILED, OK, UNKNOWN, WARNING, Finding

SERVER, CLUSTER = "server", "cluster"
PART_OF, MANAGED_BY = "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"
_ENFORCE = "pod-security.kubernetes.io/enforce"
_HELM = "meta.helm.sh/release-name"
_OLM = "olm.managed"


def check_types(missing: Sequence[Resource]) -> Finding:
    """Check that the server serves every type of an installation."""
    if not missing:
        return Finding(SERVER, "types", OK, "the server serves every type that an installation needs")
    names = shorten_list(f"{each.qualified} {each.version}" for each in missing)
    return Finding(
        SERVER,
        "types",
        FAILED,
        f"the server does not serve {names}",
        "upgrade the cluster, or ask its administrator to enable these APIs",
    )


def check_service_access(registered: Iterable[JsonObject], dns: bool | None) -> Finding:
    """Check that the API server reaches Services, which webhooks need, by those that it already uses.

    `dns`: whether it reached the metrics of the cluster DNS through its Service; None if not checked.
    """
    behind = {each["metadata"]["name"]: _is_available(each) for each in registered if _uses_service(each)}
    working = sorted(name for name, works in behind.items() if works)
    if working:
        return Finding(SERVER, "services", OK, f"the API server reaches Services ({working[0]} responds)")
    if dns:
        return Finding(SERVER, "services", OK, "the API server reaches Services (kube-dns responds)")
    step = "check that pods run, and that no firewall blocks the API server from pods"
    if behind or dns is False:
        names = shorten_list(sorted(behind)) or "kube-dns"
        return Finding(
            SERVER, "services", WARNING, f"the API server does not reach the Service of {names}", step
        )
    return Finding(
        SERVER,
        "services",
        UNKNOWN,
        "the API server does not use any Service yet",
        "run `quintet doctor` after the installation to check the webhooks",
    )


def _uses_service(registered: JsonObject) -> bool:
    return bool(registered.get("spec", {}).get("service"))


def _is_available(registered: JsonObject) -> bool:
    conditions = registered.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def check_other_installations(
    places: Mapping[str, Sequence[str]], namespace: str, version: str | None
) -> Finding:
    """Check for other installations. `places`: namespace → names of Deployments of Quintet."""
    elsewhere = sorted(place for place in places if place != namespace)
    if elsewhere:
        names = shorten_list(f"{place}/{name}" for place in elsewhere for name in places[place])
        return Finding(
            CLUSTER,
            "installation",
            FAILED,
            f"Quintet is installed in another namespace: {names}",
            f"use it (--operator-namespace {elsewhere[0]}), or remove it: quintet uninstall -n "
            f"{elsewhere[0]}",
        )
    if namespace in places or version is not None:
        known = f"Quintet {version}" if version else "Quintet"
        return Finding(
            CLUSTER,
            "installation",
            OK,
            f"{known} is already installed in {namespace}",
            "run `quintet upgrade` to upgrade it to the version of this command",
        )
    return Finding(CLUSTER, "installation", OK, "there is no other installation")


def check_crds(pairs: Iterable[tuple[JsonObject | None, JsonObject]]) -> list[Finding]:
    """Check that existing CRDs, each paired with ours, can be replaced."""
    found = []
    for live, desired in pairs:
        name = desired["metadata"]["name"]
        if live is None:
            continue
        changes = unsafe_changes(live, desired)
        if changes and is_wider(live, desired):
            message = f"this CRD accepts more than this version and stays: {describe_unused(name, changes)}"
            step = "use the command of the version that created it"
            found.append(Finding(CLUSTER, "definitions", WARNING, message, step))
        elif changes:
            found.append(
                Finding(
                    CLUSTER,
                    "definitions",
                    FAILED,
                    f"CRD {name} exists and cannot be replaced: {shorten_list(changes, 3)}",
                    "uninstall its owner, or install the version of Quintet that created it",
                )
            )
        elif manager := find_manager(live["metadata"]):
            found.append(
                Finding(
                    CLUSTER,
                    "definitions",
                    WARNING,
                    f"CRD {name} exists and is managed by {manager}",
                    "make sure that it does not revert our changes, or remove the CRD from that installation",
                )
            )
    return found or [Finding(CLUSTER, "definitions", OK, "no existing CRD conflicts")]


def find_manager(metadata: JsonObject) -> str:
    """Return who else manages an object; empty if nobody does."""
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if owners := metadata.get("ownerReferences"):
        return f"{owners[0]['kind']} {owners[0]['name']}"
    if labels.get(PART_OF) == "quintet" or labels.get(MANAGED_BY) == "quintet-operator":
        return ""
    if release := annotations.get(_HELM):
        return "" if release == "quintet" else f"the Helm release {release}"
    if labels.get(_OLM) == "true":
        return "OLM"
    manager = labels.get(MANAGED_BY, "") or labels.get(PART_OF, "")
    return f"'{manager}' (from its labels)" if manager else ""


def check_names(taken: Iterable[tuple[Resource, JsonObject]]) -> list[Finding]:
    """Check that no foreign object has the name of one of ours."""
    foreign = [
        f"{resource.kind} {metadata['name']}"
        for resource, metadata in taken
        if (metadata.get("labels") or {}).get(PART_OF) != "quintet"
    ]
    if not foreign:
        return [Finding(CLUSTER, "names", OK, "no other object uses the name of one of ours")]
    return [
        Finding(
            CLUSTER,
            "names",
            FAILED,
            f"these objects exist and are not part of Quintet: {shorten_list(foreign)}",
            "delete or rename them: Quintet does not take over objects of others",
        )
    ]


def check_namespace(name: str, live: JsonObject | None, refusal: str) -> Finding:
    """Check that the namespace accepts our pods. `refusal`: the error of a dry run with such a pod."""
    if live is None:
        return Finding(CLUSTER, "namespace", OK, f"namespace {name} does not exist and will be created")
    if live["metadata"].get("deletionTimestamp"):
        return Finding(
            CLUSTER, "namespace", FAILED, f"namespace {name} is being deleted", "wait until it is deleted"
        )
    if refusal:
        return Finding(
            CLUSTER,
            "namespace",
            FAILED,
            f"namespace {name} would reject the pods of Quintet: {refusal}",
            "fix what the message names, or install in another namespace (-n)",
        )
    level = (live["metadata"].get("labels") or {}).get(_ENFORCE)
    kept = (
        f"its Pod Security level is {level}, with which our pods comply" if level else "it accepts our pods"
    )
    return Finding(CLUSTER, "namespace", OK, f"namespace {name} exists; {kept}")


def check_grants(refusals: Sequence[str]) -> Finding:
    """Check that the server accepts all objects of an installation, including our permissions."""
    if not refusals:
        return Finding("permissions", "grant", OK, "the server accepts all objects of an installation")
    return Finding(
        "permissions",
        "grant",
        FAILED,
        f"the server would reject {shorten_list(refusals, 2)}",
        "let a cluster-admin install it, or change the policy that the message names",
    )
