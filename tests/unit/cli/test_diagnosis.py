"""What doctor makes of what it sees: by value, without a cluster."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from quintet.admission.certs import RotationPolicy, rotate
from quintet.apis.meta import Condition, ObjectMeta, Resource
from quintet.apis.suite import QUINTET, Quintet
from quintet.apis.suite.types import ComponentStatus, QuintetStatus
from quintet.cli.diagnosis import after, before
from quintet.cli.diagnosis.findings import FAILED, OK, UNKNOWN, WARNING, Finding, shortened, worst
from quintet.cli.diagnosis.looking import a_pod, components_of
from quintet.cli.diagnosis.probes import probe
from quintet.cli.documents import Document
from quintet.cli.validate import judged
from quintet.components import COMPONENTS, CUSTOM_RESOURCES
from quintet.kube.errors import error_for
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import FLAVOURS

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False)
SERVERS = next(kind.resource for kind in CUSTOM_RESOURCES if kind.resource.kind == "JsonServer")


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
def test_the_verdict_is_the_worst_that_was_found(statuses, want):
    assert worst(map(a_finding, statuses)) == want


def test_a_long_list_says_how_many_more_there_are():
    assert shortened("abcdef") == "a, b, c, d and 2 more"


def test_a_type_that_is_not_served_stops_an_installation():
    assert before.judge_kinds([]).status == OK
    found = before.judge_kinds([ROLES])
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
def test_services_are_known_by_what_the_server_reaches_already(registered, dns, want):
    assert before.judge_services(registered, dns).status == want


def test_an_installation_in_another_namespace_is_in_the_way_and_one_in_this_is_not():
    other = before.judge_others({"tools": ["quintet-operator"]}, "quintet-system", "1.0")
    assert (other.status, "tools/quintet-operator" in other.message) == (FAILED, True)
    assert "quintet uninstall -n tools" in other.next
    same = before.judge_others({"quintet-system": ["quintet-operator"]}, "quintet-system", "1.0")
    assert (same.status, "quintet upgrade" in same.next) == (OK, True)
    assert before.judge_others({}, "quintet-system", None).status == OK


def test_a_definition_that_cannot_be_replaced_is_named_with_the_field():
    wanted = custom_resource_definition(QUINTET)
    live = custom_resource_definition(QUINTET)
    schema = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    (found,) = before.judge_definitions([(live, wanted)])
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
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "kyma"}}, "'kyma', as its labels say", id="labels of others"),
        pytest.param({"ownerReferences": [{"kind": "Kyma", "name": "default"}]}, "Kyma default", id="an owner"),
    ],
)  # fmt: skip
def test_who_keeps_a_definition(metadata, want):
    assert before.keeper_of(metadata) == want


def test_a_definition_of_somebody_else_that_would_fit_is_a_warning():
    live = custom_resource_definition(QUINTET)
    live["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "kyma"}
    (found,) = before.judge_definitions([(live, custom_resource_definition(QUINTET))])
    assert (found.status, "kyma" in found.message) == (WARNING, True)
    (none,) = before.judge_definitions([(None, custom_resource_definition(QUINTET))])
    assert none.status == OK


def test_names_that_strangers_have_are_named():
    ours = {"name": "quintet-operator", "labels": {"app.kubernetes.io/part-of": "quintet"}}
    assert before.judge_names([(ROLES, ours)])[0].status == OK
    (found,) = before.judge_names([(ROLES, {"name": "quintet-operator"})])
    assert (found.status, "ClusterRole quintet-operator" in found.message) == (FAILED, True)


@pytest.mark.parametrize(
    ("live", "refusal", "want"),
    [
        pytest.param(None, "", OK, id="it is made"),
        pytest.param({"metadata": {"labels": {before._ENFORCE: "restricted"}}}, "", OK, id="the strictest level"),
        pytest.param({"metadata": {"deletionTimestamp": "now"}}, "", FAILED, id="it is on its way out"),
        pytest.param({"metadata": {}}, "exceeded quota", FAILED, id="a pod of ours would be refused"),
    ],
)  # fmt: skip
def test_the_namespace_has_to_take_our_pods(live, refusal, want):
    found = before.judge_namespace("quintet-system", live, refusal)
    assert found.status == want
    assert refusal in found.message


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda each: each.name)
def test_the_pod_that_is_tried_is_the_operators_but_for_its_account(flavour):
    pod = a_pod(flavour)
    assert pod["spec"]["serviceAccountName"] == "default"
    assert pod["spec"]["containers"][0]["args"][0] == "operator"


@pytest.mark.parametrize(
    ("quintet", "want", "words"),
    [
        pytest.param(a_quintet(AVAILABLE, SETTLED), OK, "1/1", id="all is well"),
        pytest.param(a_quintet(AVAILABLE, generation=2), FAILED, "not looked", id="the operator is behind"),
        pytest.param(a_quintet(), FAILED, "not said", id="the operator has not begun"),
        pytest.param(a_quintet(AVAILABLE, Condition("Degraded", "True", "WentBack", "bad image")), FAILED, "bad image", id="it went back"),
        pytest.param(a_quintet(Condition("Available", "False", "ControllersNotServing", "checkup")), FAILED, "checkup", id="some do not serve"),
        pytest.param(a_quintet(AVAILABLE, Condition("Progressing", "True", "RollingOut", "checkup")), WARNING, "checkup", id="it is being changed"),
    ],
)  # fmt: skip
def test_the_quintet_says_how_it_is(quintet, want, words):
    found, _ = after.judge_quintet(quintet, [], "1.0")
    assert (found.status, words in found.message) == (want, True), found


def test_without_anything_of_ours_it_is_not_installed_and_without_a_quintet_it_may_be():
    (nothing,) = after.judge_quintet(None, [], "1.0")
    assert (nothing.status, nothing.next) == (FAILED, "quintet install")
    (bare,) = after.judge_quintet(None, [a_process()], "1.0")
    assert bare.status == OK


def test_another_version_than_the_commands_is_a_warning():
    _, found = after.judge_quintet(a_quintet(AVAILABLE), [], "2.0")
    assert (found.status, "1.0" in found.message, "2.0" in found.message) == (WARNING, True, True)


@pytest.mark.parametrize(("ready", "want"), [(2, OK), (1, WARNING), (0, FAILED)])
def test_a_controller_needs_its_pods(ready, want):
    (found,) = after.judge_processes([a_process("quintet-checkup", ready)])
    assert (found.status, "quintet-checkup" in found.message) == (want, True)


def test_definitions_are_there_served_and_of_this_version():
    def live(*, served: bool = True):
        body = custom_resource_definition(QUINTET)
        return {**body, "status": {"conditions": [{"type": "Established", "status": str(served)}]}}

    wanted = custom_resource_definition(QUINTET)
    assert after.judge_definitions([(live(), wanted)])[0].status == OK
    assert after.judge_definitions([(None, wanted)])[0].status == FAILED
    assert after.judge_definitions([(live(served=False), wanted)])[0].status == FAILED
    older = live()
    older["spec"]["versions"][0]["additionalPrinterColumns"].pop()
    assert after.judge_definitions([(older, wanted)])[0].status == WARNING


def test_a_policy_that_is_missing_is_a_failure():
    wanted = [("ValidatingAdmissionPolicy", "a"), ("ValidatingAdmissionPolicyBinding", "a")]
    assert after.judge_policies(wanted, {kind: {"a"} for kind, _ in wanted}).status == OK
    found = after.judge_policies(wanted, {"ValidatingAdmissionPolicy": {"a"}})
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


def test_webhooks_are_registered_and_their_authority_is_in_time():
    bundle, end = a_bundle()
    configurations = [a_registration(bundle)]
    assert after.judge_registrations(configurations, [SERVERS], NOW)[0].status == OK
    soon = after.judge_registrations(configurations, [SERVERS], end - timedelta(hours=1))
    assert [each.status for each in soon] == [WARNING]
    over = after.judge_registrations(configurations, [SERVERS], end + timedelta(seconds=1))
    assert (over[0].status, "ended on" in over[0].message) == (FAILED, True)


@pytest.mark.parametrize("bundle", [None, "", "!", base64.b64encode(b"no certificate").decode()])
def test_a_bundle_that_nothing_can_be_trusted_by_is_a_failure(bundle):
    (found,) = after.judge_registrations([a_registration(bundle)], [SERVERS], NOW)
    assert (found.check, found.status) == ("certificates", FAILED)


def test_an_address_outside_may_be_trusted_by_everybody():
    body = a_registration(None)
    body["webhooks"][0]["clientConfig"] = {"url": "https://hooks.example"}
    assert after.judge_registrations([body], [SERVERS], NOW)[0].status == OK


def test_a_kind_that_nobody_is_asked_about_is_a_failure():
    (found,) = after.judge_registrations([], [SERVERS], NOW)
    assert (found.status, SERVERS.qualified in found.message) == (FAILED, True)


@pytest.mark.parametrize(
    ("code", "want"), [(500, FAILED), (403, UNKNOWN), (409, OK), (422, UNKNOWN), (404, UNKNOWN)]
)
def test_what_the_server_says_to_a_dry_run_tells_whether_webhooks_answer(code, want):
    body = b'{"kind":"Status","message":"failed calling webhook","code":%d}' % code
    found = after.judge_answer(SERVERS, error_for("PATCH", code, body))
    assert found.status == want, found
    assert after.judge_answer(SERVERS, None).status == OK


@pytest.mark.parametrize("kind", CUSTOM_RESOURCES, ids=lambda kind: kind.resource.kind)
def test_what_is_sent_as_a_dry_run_is_right(kind):
    body = probe(kind.resource, "shop")
    found = judged(Document("probe", 1, body), "shop")
    assert list(found.errors) == [], found


def test_which_controllers_run_is_said_by_the_quintet_or_by_their_processes():
    assert [each.name for each in components_of(a_quintet(), [])] == ["jsonserver"]
    process = a_process("quintet", 2, "run", "--controllers=checkup,eventing")
    assert {each.name for each in components_of(None, [process])} == {"checkup", "eventing"}
    assert len(components_of(None, [a_process("quintet", 2, "run")])) == len(COMPONENTS)
