"""What doctor makes of what it sees: by value, without a cluster."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quintet.admission.certs import RotationPolicy, rotate
from quintet.apis.meta import Condition, ObjectKey, ObjectMeta, Resource
from quintet.apis.suite import QUINTET, Quintet
from quintet.apis.suite.types import ComponentStatus, QuintetStatus
from quintet.apis.text import shorten_list
from quintet.authoring.documents import Document
from quintet.authoring.validation import validate_document
from quintet.clock import micro_timestamp, timestamp
from quintet.components import COMPONENTS, CUSTOM_RESOURCES
from quintet.controllers.decide.causes import Cause, CauseReason
from quintet.controllers.suite.decide.leaders import LeaseView, LeaseViewSpec
from quintet.controllers.suite.decide.pods import ProcessPod
from quintet.install.doctor import health, preflight
from quintet.install.doctor.checks import probe_pod, running_components
from quintet.install.doctor.findings import (
    FAILED,
    OK,
    UNKNOWN,
    WARNING,
    Finding,
    overall_status,
)
from quintet.install.doctor.probes import probe_object
from quintet.kube.errors import error_for
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
SERVERS = next(kind.resource for kind in CUSTOM_RESOURCES if kind.resource.kind == "JsonServer")


ESTABLISHED = {"type": "Established", "status": "True"}


def a_finding(status: str) -> Finding:
    return Finding("group", "check", status, "message")


def a_quintet(*conditions: Condition, generation: int = 1, version: str = "1.0") -> Quintet:
    status = QuintetStatus(
        observed_generation=1,
        version=version,
        ready="1/1",
        components=(ComponentStatus(name="jsonserver", ready=True),),
        conditions=conditions,
    )
    return Quintet(metadata=ObjectMeta(name="quintet", generation=generation), status=status)


AVAILABLE = Condition("Available", "True", "AllControllersServe")
SETTLED = Condition("Progressing", "False", "Settled")


def a_process(name: str = "quintet", ready: int = 2, *args: str, **labels: str):
    return {
        "metadata": {"name": name, "namespace": "quintet-system", "labels": labels},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [{"args": list(args)}]}}},
        "status": {"readyReplicas": ready},
    }


@pytest.mark.parametrize(
    ("statuses", "want"),
    [
        pytest.param([], OK, id="nothing was found: all is well"),
        pytest.param([OK, UNKNOWN], OK, id="what was not looked at is no bad news"),
        pytest.param([OK, WARNING], WARNING, id="a warning is worse than good news"),
        pytest.param([WARNING, FAILED, OK], FAILED, id="a failure is the worst"),
    ],
)
def test_overall_status_is_the_worst_finding(statuses, want):
    assert overall_status(map(a_finding, statuses)) == want


def test_shorten_list_counts_the_omitted_names():
    assert shorten_list("abcdef") == "a, b, c, d and 2 more"


def test_preflight_fails_when_a_type_is_not_served():
    assert preflight.check_types([]).status == OK
    found = preflight.check_types([ROLES])
    assert (found.status, "clusterroles.rbac.authorization.k8s.io v1" in found.message) == (FAILED, True)


def an_api_service(name: str, *, available: bool, service: bool = True):
    return {
        "metadata": {"name": name},
        "spec": {"service": {"name": "x"} if service else None},
        "status": {"conditions": [{"type": "Available", "status": str(available)}]},
    }


@pytest.mark.parametrize(
    ("registered", "dns", "want"),
    [
        pytest.param([an_api_service("v1.a", available=True)], None, OK, id="one that answers proves it"),
        pytest.param([an_api_service("v1.a", available=False)], None, WARNING, id="one that does not is a warning"),
        pytest.param([an_api_service("v1.", available=True, service=False)], None, UNKNOWN, id="the server itself proves nothing"),
        pytest.param([], True, OK, id="the DNS answers"),
        pytest.param([], False, WARNING, id="the DNS does not answer"),
        pytest.param([], None, UNKNOWN, id="nothing is there to ask"),
    ],
)  # fmt: skip
def test_preflight_judges_service_access_by_existing_api_services_and_dns(registered, dns, want):
    assert preflight.check_service_access(registered, dns).status == want


def test_preflight_fails_only_for_an_installation_in_another_namespace():
    other = preflight.check_other_installations({"tools": ["quintet-operator"]}, "quintet-system", "1.0")
    assert (other.status, "tools/quintet-operator" in other.message) == (FAILED, True)
    assert "quintet uninstall -n tools" in other.next
    same = preflight.check_other_installations(
        {"quintet-system": ["quintet-operator"]}, "quintet-system", "1.0"
    )
    assert (same.status, "quintet upgrade" in same.next) == (OK, True)
    assert preflight.check_other_installations({}, "quintet-system", None).status == OK


def test_preflight_names_the_field_of_an_irreplaceable_crd():
    wanted = custom_resource_definition(QUINTET)
    live = custom_resource_definition(QUINTET)
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    (found,) = preflight.check_crds([(live, wanted)])
    assert found.status == WARNING, "a later version left it, and it may stay"
    assert "spec.later" in found.message
    (found,) = health.check_crds([({**live, "status": {"conditions": [ESTABLISHED]}}, wanted)])
    assert "later version than this command" in found.message
    schema["properties"]["spec"]["properties"]["image"]["maxLength"] = 10
    (found,) = preflight.check_crds([(live, wanted)])
    assert found.status == FAILED
    assert "quintets.quintet.dev" in found.message
    assert "spec.later" in found.message


@pytest.mark.parametrize(
    ("metadata", "want"),
    [
        pytest.param({}, "", id="nobody says so"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "quintet-operator"}}, "", id="it is ours"),
        pytest.param({"annotations": {"meta.helm.sh/release-name": "quintet"}}, "", id="our own Helm release"),
        pytest.param({"annotations": {"meta.helm.sh/release-name": "kyma"}}, "the Helm release kyma", id="another one"),
        pytest.param({"labels": {"olm.managed": "true"}}, "OLM", id="OLM"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "kyma"}}, "'kyma' (from its labels)", id="labels of others"),
        pytest.param({"ownerReferences": [{"kind": "Kyma", "name": "default"}]}, "Kyma default", id="an owner"),
    ],
)  # fmt: skip
def test_find_manager_of_a_crd(metadata, want):
    assert preflight.find_manager(metadata) == want


def test_preflight_warns_about_a_compatible_crd_of_another_manager():
    live = custom_resource_definition(QUINTET)
    live["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "kyma"}
    (found,) = preflight.check_crds([(live, custom_resource_definition(QUINTET))])
    assert (found.status, "kyma" in found.message) == (WARNING, True)
    (none,) = preflight.check_crds([(None, custom_resource_definition(QUINTET))])
    assert none.status == OK


def test_preflight_names_foreign_objects_with_our_names():
    ours = {"name": "quintet-operator", "labels": {"app.kubernetes.io/part-of": "quintet"}}
    assert preflight.check_names([(ROLES, ours)])[0].status == OK
    (found,) = preflight.check_names([(ROLES, {"name": "quintet-operator"})])
    assert (found.status, "ClusterRole quintet-operator" in found.message) == (FAILED, True)


@pytest.mark.parametrize(
    ("live", "refusal", "want"),
    [
        pytest.param(None, "", OK, id="it is made"),
        pytest.param({"metadata": {"labels": {preflight._ENFORCE: "restricted"}}}, "", OK, id="the strictest level"),
        pytest.param({"metadata": {"deletionTimestamp": "now"}}, "", FAILED, id="it is on its way out"),
        pytest.param({"metadata": {}}, "exceeded quota", FAILED, id="a pod of ours would be refused"),
    ],
)  # fmt: skip
def test_preflight_requires_a_namespace_that_accepts_our_pods(live, refusal, want):
    found = preflight.check_namespace("quintet-system", live, refusal)
    assert found.status == want
    assert refusal in found.message


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda each: each.name)
def test_probe_pod_is_the_operator_pod_with_default_service_account(flavour):
    pod = probe_pod(flavour)
    assert pod["spec"]["serviceAccountName"] == "default"
    assert pod["spec"]["containers"][0]["args"][0] == "operator"


@pytest.mark.parametrize(
    ("quintet", "want", "words"),
    [
        pytest.param(a_quintet(AVAILABLE, SETTLED), OK, "1/1", id="all is well"),
        pytest.param(a_quintet(AVAILABLE, generation=2), FAILED, "not observed", id="the operator is behind"),
        pytest.param(a_quintet(), FAILED, "not written", id="the operator has not begun"),
        pytest.param(a_quintet(AVAILABLE, Condition("Degraded", "True", "WentBack", "bad image")), FAILED, "bad image", id="it went back"),
        pytest.param(a_quintet(Condition("Available", "False", "ControllersNotServing", "checkup")), FAILED, "checkup", id="some do not serve"),
        pytest.param(a_quintet(AVAILABLE, Condition("Progressing", "True", "RollingOut", "checkup")), WARNING, "checkup", id="it is being changed"),
    ],
)  # fmt: skip
def test_health_follows_the_conditions_of_the_quintet(quintet, want, words):
    found, _ = health.check_quintet(quintet, [], "1.0")
    assert (found.status, words in found.message) == (want, True), found


def test_health_fails_without_installation_and_accepts_one_without_operator():
    (nothing,) = health.check_quintet(None, [], "1.0")
    assert (nothing.status, nothing.next) == (FAILED, "quintet install")
    (bare,) = health.check_quintet(None, [a_process()], "1.0")
    assert bare.status == OK


def test_health_warns_when_the_installed_version_differs():
    _, found = health.check_quintet(a_quintet(AVAILABLE), [], "2.0")
    assert (found.status, "1.0" in found.message, "2.0" in found.message) == (WARNING, True, True)


@pytest.mark.parametrize(("ready", "want"), [(2, OK), (1, WARNING), (0, FAILED)])
def test_health_requires_ready_pods_of_each_controller(ready, want):
    (found,) = health.check_processes([a_process("quintet-checkup", ready)], [], NOW)
    assert (found.status, "quintet-checkup" in found.message) == (want, True)


def a_pod(process: str, **found: Any) -> ProcessPod:
    known = {"cause": None, "restarts": "", "restarted_at": "", **found}
    return ProcessPod(key=ObjectKey("quintet-system", "p"), version=1, process=process, **known)


def test_health_names_the_cause_and_the_restarts_of_pods():
    cause = Cause(CauseReason.IMAGE, "container quintet: ErrImagePull: not found")
    pods = [a_pod("quintet", cause=cause), a_pod("other", cause=Cause(CauseReason.CRASH, "of another"))]
    (found,) = health.check_processes([a_process("quintet", 1)], pods, NOW)
    assert found.message == (
        "quintet-system/quintet: 1 of 2 pods are ready (container quintet: ErrImagePull: not found)"
    )
    killed = a_pod("quintet", restarts="pod p restarted 1 time", restarted_at=timestamp(NOW))
    (found,) = health.check_processes([a_process("quintet")], [killed], NOW)
    assert (found.check, found.status) == ("restarts", WARNING)
    assert "pod p restarted 1 time" in found.message


@pytest.mark.parametrize(
    ("lease", "want", "words"),
    [
        pytest.param(("pod-1", 10), OK, "a pod of each process leads", id="renewed"),
        pytest.param(("pod-1", 61), FAILED, "has not renewed it since", id="not renewed"),
        pytest.param(("", 1), FAILED, "no pod holds the Lease quintet", id="released"),
        pytest.param(None, FAILED, "no pod holds the Lease quintet", id="missing"),
    ],
)
def test_health_requires_a_renewed_lease_of_each_process(lease, want, words):
    if lease is not None:
        holder, seconds = lease
        spec = LeaseViewSpec(
            holder_identity=holder, renew_time=micro_timestamp(NOW - timedelta(seconds=seconds))
        )
        lease = LeaseView(metadata=ObjectMeta(name="quintet"), spec=spec)
    (found,) = health.check_leaders({ObjectKey("quintet-system", "quintet"): lease}, NOW)
    assert (found.status, words in found.message) == (want, True), found


def test_health_requires_established_crds_of_this_version():
    def live(*, served: bool = True):
        body = custom_resource_definition(QUINTET)
        return {**body, "status": {"conditions": [{"type": "Established", "status": str(served)}]}}

    wanted = custom_resource_definition(QUINTET)
    assert health.check_crds([(live(), wanted)])[0].status == OK
    assert health.check_crds([(None, wanted)])[0].status == FAILED
    assert health.check_crds([(live(served=False), wanted)])[0].status == FAILED
    older = live()
    older["spec"]["versions"][0]["additionalPrinterColumns"].pop()
    assert health.check_crds([(older, wanted)])[0].status == WARNING


def test_health_fails_when_a_policy_is_missing():
    wanted = [("ValidatingAdmissionPolicy", "a"), ("ValidatingAdmissionPolicyBinding", "a")]
    assert health.check_policies(wanted, {kind: {"a"} for kind, _ in wanted}).status == OK
    found = health.check_policies(wanted, {"ValidatingAdmissionPolicy": {"a"}})
    assert (found.status, "ValidatingAdmissionPolicyBinding a" in found.message) == (FAILED, True)


def a_registration(bundle: str | None):
    client = {"service": {"name": "x"}} | ({"caBundle": bundle} if bundle is not None else {})
    return {
        "webhooks": [
            {"name": "validate.js", "clientConfig": client, "rules": [{"resources": [SERVERS.plural]}]}
        ]
    }


def a_bundle() -> tuple[str, datetime]:
    from cryptography import x509

    state = rotate(None, ("x.svc",), NOW, RotationPolicy())
    authority = x509.load_pem_x509_certificates(state.bundle)
    return base64.b64encode(state.bundle).decode(), max(each.not_valid_after_utc for each in authority)


def test_health_checks_the_expiry_of_webhook_ca_bundles():
    bundle, end = a_bundle()
    configurations = [a_registration(bundle)]
    assert health.check_registrations(configurations, [SERVERS], NOW)[0].status == OK
    soon = health.check_registrations(configurations, [SERVERS], end - timedelta(hours=1))
    assert [each.status for each in soon] == [WARNING]
    over = health.check_registrations(configurations, [SERVERS], end + timedelta(seconds=1))
    assert (over[0].status, "expired on" in over[0].message) == (FAILED, True)


@pytest.mark.parametrize("bundle", [None, "", "!", base64.b64encode(b"no certificate").decode()])
def test_health_fails_for_an_invalid_ca_bundle(bundle):
    (found,) = health.check_registrations([a_registration(bundle)], [SERVERS], NOW)
    assert (found.check, found.status) == ("certificates", FAILED)


def test_health_accepts_webhook_url_without_ca_bundle():
    body = a_registration(None)
    body["webhooks"][0]["clientConfig"] = {"url": "https://hooks.example"}
    assert health.check_registrations([body], [SERVERS], NOW)[0].status == OK


def test_health_fails_when_a_kind_has_no_webhook():
    (found,) = health.check_registrations([], [SERVERS], NOW)
    assert (found.status, SERVERS.qualified in found.message) == (FAILED, True)


@pytest.mark.parametrize(
    ("code", "want"), [(500, FAILED), (403, UNKNOWN), (409, OK), (422, UNKNOWN), (404, UNKNOWN)]
)
def test_health_judges_webhook_by_the_dry_run_error(code, want):
    body = b'{"kind":"Status","message":"failed calling webhook","code":%d}' % code
    found = health.check_webhook_response(SERVERS, error_for("PATCH", code, body))
    assert found.status == want, found
    assert health.check_webhook_response(SERVERS, None).status == OK


@pytest.mark.parametrize("kind", CUSTOM_RESOURCES, ids=lambda kind: kind.resource.kind)
def test_probe_objects_are_valid(kind):
    body = probe_object(kind.resource, "shop")
    found = validate_document(Document("probe", 1, body), "shop")
    assert list(found.errors) == [], found


def test_running_components_come_from_quintet_or_deployment_arguments():
    assert [each.name for each in running_components(a_quintet(), [])] == ["jsonserver"]
    process = a_process("quintet", 2, "run", "--controllers=checkup,eventing")
    assert {each.name for each in running_components(None, [process])} == {"checkup", "eventing"}
    assert len(running_components(None, [a_process("quintet", 2, "run")])) == len(COMPONENTS)
