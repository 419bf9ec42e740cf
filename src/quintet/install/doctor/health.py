"""The checks of an existing installation. Pure."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from quintet.admission.registration import covers
from quintet.apis.meta import JsonObject, ObjectKey, Resource, find_condition
from quintet.apis.suite import Quintet
from quintet.apis.text import shorten_list
from quintet.controllers.suite.decide.leaders import LeaseView, describe_leader, was_renewed_lately
from quintet.controllers.suite.decide.pods import ProcessPod, find_cause, recent_restarts
from quintet.controllers.suite.decide.safety import is_wider, unsafe_changes
from quintet.controllers.suite.decide.user_objects import UserObject
from quintet.install.doctor.findings import FAILED, OK, UNKNOWN, WARNING, Finding
from quintet.install.user_objects import controller_of
from quintet.kube.errors import ApiError, Conflict, KubeError, ServerFault

GROUP, WEBHOOKS = "installation", "webhooks"
DESCRIBE = "kubectl describe quintets quintet"
_SOON = timedelta(days=7)
_SLOW_DELETION = timedelta(minutes=10)


def check_quintet(quintet: Quintet | None, processes: Sequence[JsonObject], version: str) -> list[Finding]:
    """Check the conditions and the version of the Quintet."""
    if quintet is None and not processes:
        return [Finding(GROUP, "quintet", FAILED, "Quintet is not installed", "quintet install")]
    if quintet is None:
        message = "the controllers were installed without the operator (no Quintet object)"
        return [Finding(GROUP, "quintet", OK, message)]
    return [_check_conditions(quintet), *_check_version(quintet.status.version, version)]


def _check_conditions(quintet: Quintet) -> Finding:
    status = quintet.status
    if status.observed_generation != quintet.metadata.generation:
        message = "the operator has not observed the last change of the Quintet"
        return Finding(GROUP, "quintet", FAILED, message, "check the log of quintet-operator")
    for kind, wrong, verdict in (("Degraded", "True", FAILED), ("Available", "False", FAILED)):
        found = find_condition(status.conditions, kind)
        if found is not None and found.status == wrong:
            return Finding(GROUP, "quintet", verdict, f"{found.reason}: {found.message}", DESCRIBE)
    if find_condition(status.conditions, "Available") is None:
        return Finding(GROUP, "quintet", FAILED, "the operator has not written a status yet", DESCRIBE)
    progressing = find_condition(status.conditions, "Progressing")
    if progressing is not None and progressing.status == "True":
        message = f"a rollout is in progress ({progressing.message})"
        return Finding(GROUP, "quintet", WARNING, message, "quintet wait")
    return Finding(GROUP, "quintet", OK, f"{status.ready} controllers are ready")


def _check_version(installed: str, ours: str) -> list[Finding]:
    if installed == ours:
        return [Finding(GROUP, "version", OK, f"Quintet {installed}, like this command")]
    message = f"Quintet {installed or 'of an unknown version'} is installed, this command is {ours}"
    return [
        Finding(
            GROUP, "version", WARNING, message, "run `quintet upgrade`, or use the command of that version"
        )
    ]


def check_processes(
    processes: Sequence[JsonObject], pods: Sequence[ProcessPod], now: datetime
) -> list[Finding]:
    """Check that every Deployment of Quintet has all its pods, and that they do not restart."""
    found = []
    for each in processes:
        metadata, desired = each["metadata"], each["spec"].get("replicas", 1)
        key = ObjectKey(metadata["namespace"], metadata["name"])
        own = [pod for pod in pods if (pod.key.namespace, pod.process) == key]
        ready = (each.get("status") or {}).get("readyReplicas", 0)
        why = find_cause(own)
        count = f"{key}: {ready} of {desired} pods are ready" + (f" ({why})" if why else "")
        look = f"kubectl -n {key.namespace} get pods -l app.kubernetes.io/name={key.name}"
        if desired == 0:
            found.append(Finding(GROUP, "controllers", WARNING, f"{key} is scaled to zero", look))
        elif ready == 0:
            found.append(Finding(GROUP, "controllers", FAILED, count, look))
        elif ready < desired:
            found.append(Finding(GROUP, "controllers", WARNING, count, look))
        if restarts := recent_restarts(own, now):
            message = f"{key}: {', '.join(restarts)}"
            step = f"kubectl -n {key.namespace} logs --previous POD; spec.resources sets the memory"
            found.append(Finding(GROUP, "restarts", WARNING, message, step))
    if not found and processes:
        names = shorten_list((each["metadata"]["name"] for each in processes), 8)
        found.append(Finding(GROUP, "controllers", OK, f"all pods are ready of {names}"))
    return found


def check_leaders(leases: Mapping[ObjectKey, LeaseView | None], now: datetime) -> list[Finding]:
    """Check that a pod of each process holds and renews its Lease: without that, nothing is reconciled."""
    found = []
    for key, lease in leases.items():
        if was_renewed_lately(lease, now):
            continue
        message = f"no pod of {key} leads: {describe_leader(key.name, lease)}"
        step = f"kubectl -n {key.namespace} rollout restart deployment {key.name}"
        found.append(Finding(GROUP, "leaders", FAILED, message, step))
    if not found and leases:
        found.append(Finding(GROUP, "leaders", OK, "a pod of each process leads"))
    return found


def check_deletions(
    deleting: Sequence[UserObject], unserved: Sequence[UserObject], now: datetime
) -> list[Finding]:
    """Check that the deletion of each object is finished by its controller, and soon."""
    found = []
    if unserved:
        names = ", ".join(sorted({controller_of(each) for each in unserved}))
        message = (
            f"no controller finishes the deletion of {shorten_list(map(str, unserved))}, because "
            f"{names} does not run for them"
        )
        step = "add it to spec.controllers or spec.namespaces of the Quintet, or run `quintet install`"
        found.append(Finding(GROUP, "deletions", FAILED, message, step))
    slow = [each for each in deleting if each not in unserved and now - each.deleted_at > _SLOW_DELETION]
    if slow:
        first = slow[0]
        message = f"in deletion for more than 10 minutes: {shorten_list(map(str, slow))}"
        step = f"quintet explain {first.kind.resource.kind.lower()} {first.key.name} -n {first.key.namespace}"
        found.append(Finding(GROUP, "deletions", WARNING, message, step))
    return found or [Finding(GROUP, "deletions", OK, "no deletion waits for a controller")]


def check_crds(pairs: Iterable[tuple[JsonObject | None, JsonObject]]) -> list[Finding]:
    """Check that the live CRDs, each paired with that of this version, are equal and established."""
    missing, silent = list[str](), list[str]()
    other, later = list[str](), list[str]()
    for live, desired in pairs:
        name = desired["metadata"]["name"]
        if live is None:
            missing.append(name)
        elif not _is_established(live):
            silent.append(name)
        elif _is_later(live, desired):
            later.append(name)
        elif not covers(live["spec"], desired["spec"]):
            other.append(name)
    found = []
    if missing:
        message = f"missing CRDs: {shorten_list(missing)}"
        found.append(Finding(GROUP, "definitions", FAILED, message, "quintet install"))
    if silent:
        message = f"CRDs not established: {shorten_list(silent)}"
        step = f"kubectl describe crd {silent[0]}"
        found.append(Finding(GROUP, "definitions", FAILED, message, step))
    if other:
        message = f"CRDs of another version than this command: {shorten_list(other)}"
        found.append(Finding(GROUP, "definitions", WARNING, message, "quintet upgrade"))
    if later:
        message = f"CRDs of a later version than this command: {shorten_list(later)}"
        step = "use the command of that version"
        found.append(Finding(GROUP, "definitions", WARNING, message, step))
    return found or [Finding(GROUP, "definitions", OK, "all CRDs are of this version")]


def _is_later(live: JsonObject, desired: JsonObject) -> bool:
    return bool(unsafe_changes(live, desired)) and is_wider(live, desired)


def _is_established(live: JsonObject) -> bool:
    conditions = live.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def check_policies(desired: Iterable[tuple[str, str]], live: Mapping[str, set[str]]) -> Finding:
    """Check that the policies exist that limit users to their own permissions. Pairs of kind and name."""
    missing = [f"{kind} {name}" for kind, name in desired if name not in live.get(kind, set())]
    if not missing:
        return Finding(GROUP, "policies", OK, "all admission policies and their bindings exist")
    message = f"missing: {shorten_list(missing)}. Users could misuse the permissions of controllers"
    return Finding(GROUP, "policies", FAILED, message, "quintet install")


def check_registrations(
    configurations: Sequence[JsonObject], kinds: Iterable[Resource], now: datetime
) -> list[Finding]:
    """Check that webhooks are registered for every kind, with a valid CA bundle."""
    hooks = [hook for each in configurations for hook in each.get("webhooks") or ()]
    asked = {plural for hook in hooks for rule in hook["rules"] for plural in rule["resources"]}
    found = []
    if silent := [each.qualified for each in kinds if each.plural not in asked]:
        message = f"no webhook is registered for {shorten_list(silent)}"
        step = "check the log of its controller; the leader registers the webhooks"
        found.append(Finding(WEBHOOKS, "registered", FAILED, message, step))
    for hook in hooks:
        if problem := _check_ca_bundle(hook["clientConfig"], now):
            status, text = problem
            step = "delete the Secret NAME-webhook-certs of the controller: it creates a new one"
            found.append(Finding(WEBHOOKS, "certificates", status, f"{hook['name']}: {text}", step))
    return found or [
        Finding(WEBHOOKS, "registered", OK, "webhooks are registered for every kind, with valid certificates")
    ]


def _check_ca_bundle(client: JsonObject, now: datetime) -> tuple[str, str] | None:
    """Return the problem of a CA bundle; one valid certificate is enough."""
    from cryptography import x509

    if not client.get("caBundle"):
        # An external URL may have a publicly trusted certificate.
        if "url" in client:
            return None
        return FAILED, "no caBundle is set"
    try:
        bundle = x509.load_pem_x509_certificates(base64.b64decode(client["caBundle"], validate=True))
    except (ValueError, binascii.Error):
        return FAILED, "the caBundle contains no valid certificate"
    end = max(each.not_valid_after_utc for each in bundle)
    if end <= now:
        return FAILED, f"the certificate expired on {end:%Y-%m-%d %H:%M} UTC"
    if end - now < _SOON:
        return WARNING, f"the certificate expires on {end:%Y-%m-%d %H:%M} UTC"
    return None


def check_webhook_response(resource: Resource, error: KubeError | None) -> Finding:
    """Check that webhooks respond, from the error of a dry run with an object."""
    name = resource.qualified
    if error is None or isinstance(error, Conflict):
        return Finding(WEBHOOKS, "answers", OK, f"{name}: the webhook responds")
    if isinstance(error, ApiError) and not isinstance(error, ServerFault):
        # Rejected for another reason, possibly before the webhook was called.
        return Finding(WEBHOOKS, "answers", UNKNOWN, f"{name}: rejected before the webhook ({error.message})")
    message = error.message if isinstance(error, ApiError) else str(error)
    step = "check that its pods are ready and that the API server reaches them"
    return Finding(WEBHOOKS, "answers", FAILED, f"{name}: {message}", step)
