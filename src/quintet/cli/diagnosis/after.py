"""How an installation is doing, judged from what the cluster says of it. Pure; called by `looking`."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from quintet.admission.registration import covers
from quintet.apis.meta import JsonObject, Resource, find_condition
from quintet.apis.suite import Quintet
from quintet.cli.diagnosis.findings import FAILED, OK, UNKNOWN, WARNING, Finding, shortened
from quintet.kube.errors import ApiError, Conflict, KubeError, ServerFault

GROUP, WEBHOOKS = "installation", "webhooks"
DESCRIBE = "kubectl describe quintets quintet"
_SOON = timedelta(days=7)


def judge_quintet(quintet: Quintet | None, processes: Sequence[JsonObject], version: str) -> list[Finding]:
    """What the operator says of its work."""
    if quintet is None and not processes:
        return [Finding(GROUP, "quintet", FAILED, "Quintet is not installed here", "quintet install")]
    if quintet is None:
        said = "there is no Quintet: the controllers were installed without the operator"
        return [Finding(GROUP, "quintet", OK, said)]
    return [_judge_conditions(quintet), *_judge_version(quintet.status.version, version)]


def _judge_conditions(quintet: Quintet) -> Finding:
    status = quintet.status
    if status.observed_generation != quintet.metadata.generation:
        said = "the operator has not looked at the last change of the Quintet"
        return Finding(GROUP, "quintet", FAILED, said, "look at the log of quintet-operator")
    for kind, wrong, verdict in (("Degraded", "True", FAILED), ("Available", "False", FAILED)):
        found = find_condition(status.conditions, kind)
        if found is not None and found.status == wrong:
            return Finding(GROUP, "quintet", verdict, f"{found.reason}: {found.message}", DESCRIBE)
    if find_condition(status.conditions, "Available") is None:
        return Finding(GROUP, "quintet", FAILED, "the operator has not said anything yet", DESCRIBE)
    progressing = find_condition(status.conditions, "Progressing")
    if progressing is not None and progressing.status == "True":
        said = f"something is being changed ({progressing.message})"
        return Finding(GROUP, "quintet", WARNING, said, "quintet wait")
    return Finding(GROUP, "quintet", OK, f"{status.ready} controllers are ready, and nothing is changing")


def _judge_version(installed: str, ours: str) -> list[Finding]:
    if installed == ours:
        return [Finding(GROUP, "version", OK, f"Quintet {installed}, as this command")]
    said = f"Quintet {installed or 'of an unknown version'} is installed, this command is {ours}"
    return [Finding(GROUP, "version", WARNING, said, "quintet upgrade, or use the command of that version")]


def judge_processes(processes: Sequence[JsonObject]) -> list[Finding]:
    """Whether every Deployment of ours has the pods that it should have."""
    found = []
    for each in processes:
        metadata, wanted = each["metadata"], each["spec"].get("replicas", 1)
        status = each.get("status") or {}
        name, ready = f"{metadata['namespace']}/{metadata['name']}", status.get("readyReplicas", 0)
        look = f"kubectl -n {metadata['namespace']} get pods -l app.kubernetes.io/name={metadata['name']}"
        if wanted == 0:
            found.append(Finding(GROUP, "controllers", WARNING, f"{name} is scaled to none", look))
        elif ready == 0:
            found.append(Finding(GROUP, "controllers", FAILED, f"{name}: no pod of {wanted} serves", look))
        elif ready < wanted:
            said = f"{name}: {ready} of {wanted} pods serve"
            found.append(Finding(GROUP, "controllers", WARNING, said, look))
    if not found and processes:
        names = shortened((each["metadata"]["name"] for each in processes), 8)
        found.append(Finding(GROUP, "controllers", OK, f"every pod serves of {names}"))
    return found


def judge_definitions(pairs: Iterable[tuple[JsonObject | None, JsonObject]]) -> list[Finding]:
    """Whether the definitions, each with what it should be, are those of this version and served."""
    missing, silent, other = [], [], []
    for live, wanted in pairs:
        name = wanted["metadata"]["name"]
        if live is None:
            missing.append(name)
        elif not _established(live):
            silent.append(name)
        elif not covers(live["spec"], wanted["spec"]):
            other.append(name)
    found = []
    if missing:
        said = f"no definition of {shortened(missing)}"
        found.append(Finding(GROUP, "definitions", FAILED, said, "quintet install"))
    if silent:
        said = f"the server does not serve {shortened(silent)}"
        step = f"kubectl describe crd {silent[0]}"
        found.append(Finding(GROUP, "definitions", FAILED, said, step))
    if other:
        said = f"of another version than this command: {shortened(other)}"
        found.append(Finding(GROUP, "definitions", WARNING, said, "quintet upgrade"))
    return found or [Finding(GROUP, "definitions", OK, "all definitions are of this version")]


def _established(live: JsonObject) -> bool:
    conditions = live.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def judge_policies(wanted: Iterable[tuple[str, str]], live: Mapping[str, set[str]]) -> Finding:
    """Whether the policies that keep users to their own rights are there. Pairs of kind and name."""
    missing = [f"{kind} {name}" for kind, name in wanted if name not in live.get(kind, set())]
    if not missing:
        return Finding(GROUP, "policies", OK, "every admission policy and its binding is there")
    said = f"missing: {shortened(missing)}. Users could ask our controllers for what they may not do"
    return Finding(GROUP, "policies", FAILED, said, "quintet install")


def judge_registrations(
    configurations: Sequence[JsonObject], kinds: Iterable[Resource], now: datetime
) -> list[Finding]:
    """Whether the server is told to ask us about every kind, and whom to trust."""
    hooks = [hook for each in configurations for hook in each.get("webhooks") or ()]
    asked = {plural for hook in hooks for rule in hook["rules"] for plural in rule["resources"]}
    found = []
    if silent := [each.qualified for each in kinds if each.plural not in asked]:
        said = f"nobody is asked about {shortened(silent)}"
        step = "look at the log of its controller; it registers them when it leads"
        found.append(Finding(WEBHOOKS, "registered", FAILED, said, step))
    for hook in hooks:
        if problem := _trust(hook["clientConfig"], now):
            status, said = problem
            step = "delete the Secret NAME-webhook-certs of the controller: it makes another"
            found.append(Finding(WEBHOOKS, "certificates", status, f"{hook['name']}: {said}", step))
    return found or [
        Finding(WEBHOOKS, "registered", OK, "every kind is asked about, with a certificate in time")
    ]


def _trust(client: JsonObject, now: datetime) -> tuple[str, str] | None:
    """What is wrong with whom the server trusts; one certificate of several that is good is enough."""
    from cryptography import x509

    if not client.get("caBundle"):
        # An address outside may have a certificate that everybody trusts.
        if "url" in client:
            return None
        return FAILED, "the server is not told whom to trust (no caBundle)"
    try:
        bundle = x509.load_pem_x509_certificates(base64.b64decode(client["caBundle"], validate=True))
    except (ValueError, binascii.Error):
        return FAILED, "the caBundle is no certificate"
    end = max(each.not_valid_after_utc for each in bundle)
    if end <= now:
        return FAILED, f"the certificate ended on {end:%Y-%m-%d %H:%M} UTC"
    if end - now < _SOON:
        return WARNING, f"the certificate ends on {end:%Y-%m-%d %H:%M} UTC"
    return None


def judge_answer(resource: Resource, error: KubeError | None) -> Finding:
    """Whether the server got an answer of our webhooks, told by what it says to an object, as a dry run."""
    name = resource.qualified
    if error is None or isinstance(error, Conflict):
        return Finding(WEBHOOKS, "answers", OK, f"{name}: the server asks and gets an answer")
    if isinstance(error, ApiError) and not isinstance(error, ServerFault):
        # Refused for another reason, perhaps before anybody was asked.
        return Finding(WEBHOOKS, "answers", UNKNOWN, f"{name}: not tried to the end ({error.message})")
    said = error.message if isinstance(error, ApiError) else str(error)
    step = "see that its pods serve, and that the API server can reach them"
    return Finding(WEBHOOKS, "answers", FAILED, f"{name}: {said}", step)
