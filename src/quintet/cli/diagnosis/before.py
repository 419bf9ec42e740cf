"""What has to be so before an installation, judged from what the cluster says. Pure; called by `looking`."""

from collections.abc import Iterable, Mapping, Sequence

from quintet.apis.meta import JsonObject, Resource
from quintet.cli.diagnosis.findings import FAILED, OK, UNKNOWN, WARNING, Finding, shortened
from quintet.controllers.suite.decide.safety import unsafe_changes

SERVER, CLUSTER = "server", "cluster"
PART_OF, MANAGED_BY = "app.kubernetes.io/part-of", "app.kubernetes.io/managed-by"
_ENFORCE = "pod-security.kubernetes.io/enforce"
_HELM = "meta.helm.sh/release-name"
_OLM = "olm.managed"


def judge_kinds(missing: Sequence[Resource]) -> Finding:
    """Whether the server knows every type that an installation consists of."""
    if not missing:
        return Finding(SERVER, "types", OK, "every type that an installation needs is served")
    names = shortened(f"{each.qualified} {each.version}" for each in missing)
    return Finding(
        SERVER,
        "types",
        FAILED,
        f"the server does not serve {names}",
        "upgrade the cluster, or have its administrator turn these on",
    )


def judge_services(registered: Iterable[JsonObject], dns: bool | None) -> Finding:
    """Whether the API server reaches Services, as it has to for webhooks; told by what it reaches already.

    `dns`: whether it reached the metrics of the cluster's DNS through its Service; None: nobody asked.
    """
    behind = {each["metadata"]["name"]: _available(each) for each in registered if _by_service(each)}
    working = sorted(name for name, works in behind.items() if works)
    if working:
        return Finding(SERVER, "services", OK, f"the API server reaches Services ({working[0]} answers)")
    if dns:
        return Finding(SERVER, "services", OK, "the API server reaches Services (kube-dns answers)")
    step = "see that pods run, and that no firewall is between API server and pods"
    if behind or dns is False:
        names = shortened(sorted(behind)) or "kube-dns"
        return Finding(
            SERVER, "services", WARNING, f"the API server does not reach {names} by its Service", step
        )
    return Finding(
        SERVER,
        "services",
        UNKNOWN,
        "nothing is there yet that the API server reaches by a Service",
        "`quintet doctor` asks the webhooks once Quintet is installed",
    )


def _by_service(registered: JsonObject) -> bool:
    return bool(registered.get("spec", {}).get("service"))


def _available(registered: JsonObject) -> bool:
    conditions = registered.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def judge_others(places: Mapping[str, Sequence[str]], namespace: str, version: str | None) -> Finding:
    """Whether another installation is in the way. `places`: namespace → names of processes of ours."""
    elsewhere = sorted(place for place in places if place != namespace)
    if elsewhere:
        names = shortened(f"{place}/{name}" for place in elsewhere for name in places[place])
        return Finding(
            CLUSTER,
            "installation",
            FAILED,
            f"Quintet is installed in another namespace: {names}",
            f"use that one (--operator-namespace {elsewhere[0]}), or remove it: quintet uninstall -n "
            f"{elsewhere[0]}",
        )
    if namespace in places or version is not None:
        known = f"Quintet {version}" if version else "Quintet"
        return Finding(
            CLUSTER,
            "installation",
            OK,
            f"{known} is installed in {namespace} already",
            "`quintet upgrade` brings it to the version of this command",
        )
    return Finding(CLUSTER, "installation", OK, "no other installation is there")


def judge_definitions(pairs: Iterable[tuple[JsonObject | None, JsonObject]]) -> list[Finding]:
    """Whether definitions that are there (each with the one that we want) can be taken over."""
    found = []
    for live, wanted in pairs:
        name = wanted["metadata"]["name"]
        if live is None:
            continue
        if changes := unsafe_changes(live, wanted):
            found.append(
                Finding(
                    CLUSTER,
                    "definitions",
                    FAILED,
                    f"the definition of {name} is there and cannot be replaced: {shortened(changes, 3)}",
                    "remove whoever brought it, or install the version of Quintet that made it",
                )
            )
        elif keeper := keeper_of(live["metadata"]):
            found.append(
                Finding(
                    CLUSTER,
                    "definitions",
                    WARNING,
                    f"the definition of {name} is there and kept by {keeper}",
                    "see that they do not change it back, or keep that definition out of what they install",
                )
            )
    return found or [Finding(CLUSTER, "definitions", OK, "no definition is in the way")]


def keeper_of(metadata: JsonObject) -> str:
    """Who says that an object is theirs, if that is not us."""
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if owners := metadata.get("ownerReferences"):
        return f"{owners[0]['kind']} {owners[0]['name']}"
    if labels.get(PART_OF) == "quintet" or labels.get(MANAGED_BY) == "quintet-operator":
        return ""
    if release := annotations.get(_HELM):
        return "" if release == "quintet" else f"the Helm release {release}"
    if labels.get(_OLM) == "true":
        return "OLM"
    keeper = labels.get(MANAGED_BY, "") or labels.get(PART_OF, "")
    return f"'{keeper}', as its labels say" if keeper else ""


def judge_names(taken: Iterable[tuple[Resource, JsonObject]]) -> list[Finding]:
    """Whether objects of strangers have the names that ours are to have."""
    strangers = [
        f"{resource.kind} {metadata['name']}"
        for resource, metadata in taken
        if (metadata.get("labels") or {}).get(PART_OF) != "quintet"
    ]
    if not strangers:
        return [Finding(CLUSTER, "names", OK, "no object of somebody else has the name of one of ours")]
    return [
        Finding(
            CLUSTER,
            "names",
            FAILED,
            f"these are there and not ours: {shortened(strangers)}",
            "delete or rename them: Quintet does not take over what others made",
        )
    ]


def judge_namespace(name: str, live: JsonObject | None, refusal: str) -> Finding:
    """Whether our pods can be in the namespace. `refusal`: what the server has against such a pod."""
    if live is None:
        return Finding(CLUSTER, "namespace", OK, f"namespace {name} is not there yet and will be made")
    if live["metadata"].get("deletionTimestamp"):
        return Finding(
            CLUSTER, "namespace", FAILED, f"namespace {name} is being deleted", "wait until it is gone"
        )
    if refusal:
        return Finding(
            CLUSTER,
            "namespace",
            FAILED,
            f"a pod of ours would be refused in namespace {name}: {refusal}",
            "change what the message names, or install elsewhere (-n)",
        )
    level = (live["metadata"].get("labels") or {}).get(_ENFORCE)
    kept = f"its Pod Security level is {level}, which our pods keep" if level else "it takes our pods"
    return Finding(CLUSTER, "namespace", OK, f"namespace {name} is there; {kept}")


def judge_grants(refusals: Sequence[str]) -> Finding:
    """Whether the server would take what an installation applies, our own rights included."""
    if not refusals:
        return Finding("permissions", "grant", OK, "the server would take everything that is applied")
    return Finding(
        "permissions",
        "grant",
        FAILED,
        f"the server would refuse {shortened(refusals, 2)}",
        "have somebody with the role cluster-admin install it, or change the policy that the message names",
    )
