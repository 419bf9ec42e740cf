"""Manifests are checked without a cluster, and every mistake is named with its place."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings

from kit.kinds.statefulcluster_manifests import a_cluster, with_value
from quintet import kinds
from quintet.admission import review
from quintet.admission.eventingbackend import admissions
from quintet.apis.checkup.types import SCHEDULE_FIELDS
from quintet.apis.eventingbackend import CATALOG, EVENTINGBACKENDS, config_faults
from quintet.apis.eventingbackend.types import ConfigErrors
from quintet.apis.structural import CHECKED, SAID
from quintet.authoring.cel_rules import RULES
from quintet.authoring.documents import Document
from quintet.authoring.validation import validate_document
from quintet.cli.main import quintet
from quintet.manifests.crd import object_schema
from unit.eventingbackend.test_fuzzed_configs import CONFIGS, what_if

ROOT = Path(__file__).parent.parent.parent.parent
BACKEND = """
apiVersion: eventing.kyma-project.io/v1alpha1
kind: EventingBackend
metadata: {name: main, namespace: shop}
spec:
  type: nats
  config:
  - maxInFlightMessages: 10
"""
SUBSCRIPTION = """
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: orders, namespace: shop}
spec:
  sink: http://orders.shop.svc.cluster.local
  source: commerce
  types: [order.created.v1]
"""
JSON_SERVER = """
apiVersion: example.com/v1
kind: JsonServer
metadata: {name: app-people}
spec: {jsonConfig: '{"people": []}'}
"""


def run(*arguments, text=None):
    return CliRunner().invoke(quintet, ["validate", *map(str, arguments)], input=text)


def said(text, *more):
    """The lines about a text on standard input, without the place that they all begin with."""
    answer = run("-f", "-", *more, text=text)
    assert answer.exit_code in (0, 1), answer.output
    lines = answer.stdout.splitlines()
    assert bool(answer.exit_code) == any(": warning: " not in line for line in lines), answer.output
    assert all(line.startswith("standard input, document ") for line in lines), lines
    return [line.removeprefix("standard input, document ") for line in lines]


@pytest.mark.parametrize("text", [BACKEND, SUBSCRIPTION, JSON_SERVER, "", "---\n---\n"])
def test_validate_prints_nothing_for_valid_manifests(text):
    assert said(text) == []


def test_validation_error_names_file_document_object_field_and_cause(tmp_path):
    file = tmp_path / "backends.yaml"
    file.write_text(f"{BACKEND}---\n{BACKEND.replace('10', 'ten')}")
    answer = run("-f", file)
    assert answer.exit_code == 1
    assert answer.stdout == (
        f"{file}, document 2: EventingBackend shop/main: spec.config[maxInFlightMessages]: "
        'Invalid type: "ten": should be of type int\n'
    )
    assert answer.stderr == "2 objects checked, 1 error\n"


def test_validate_reports_all_errors_of_all_objects():
    found = said(
        BACKEND.replace("maxInFlightMessages: 10", "foo: bar")
        + "---"
        + SUBSCRIPTION.replace("order.created.v1", "order").replace("commerce", "''")
    )
    assert found == [
        '1: EventingBackend shop/main: spec.config[foo]: Unsupported value: "bar": config does not exist for backend type nats',
        '2: Subscription shop/orders: spec.source: Invalid value: "": must not be empty',
        '2: Subscription shop/orders: spec.types[0]: Invalid value: "order": must have minimum 2 segments',
    ]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: [", "1: cannot be parsed: line 2, column 1: "),
        ("a: 1\na: 2", "1: cannot be parsed: line 2, column 1: duplicate key 'a'"),
        ("\x00", "1: cannot be parsed: "),
        ("7", "1: is not a Kubernetes object: apiVersion and kind must be set"),
        ("a: 1", "1: is not a Kubernetes object: apiVersion and kind must be set"),
        (BACKEND.replace("{name: main, namespace: shop}", "[]"), "1: EventingBackend: metadata must be an object"),
        (BACKEND.replace("v1alpha1", "v1"), "1: EventingBackend shop/main: unknown kind EventingBackend of eventing.kyma-project.io/v1 (did you mean EventingBackend of eventing.kyma-project.io/v1alpha1?)"),
        (BACKEND.replace("kind: EventingBackend", "kind: EventingBackends"), "1: EventingBackends shop/main: unknown kind EventingBackends of eventing.kyma-project.io/v1alpha1 (did you mean EventingBackend of"),
        (BACKEND.replace("type: nats", "type: kafka"), "1: EventingBackend shop/main: spec.type: Unsupported value: \"kafka\": must be one of 'nats', 'beb'"),
        (BACKEND.replace("  type: nats\n", ""), "1: EventingBackend shop/main: spec.type: Required value: must be set"),
        (BACKEND.replace("- maxInFlightMessages: 10", "  maxInFlightMessages: 10"), "1: EventingBackend shop/main: spec.config: Invalid type: {\"maxInFlightMessages\": 10}: must be of type array"),
        (BACKEND.replace("- max", "- a: 1\n    max"), "1: EventingBackend shop/main: spec.config[0]: Invalid value: must have at most 1 keys"),
        (BACKEND.replace("name: main", "name: Main"), "1: EventingBackend shop/Main: metadata.name: Invalid value: \"Main\": must be at most 253 lower-case"),
        (BACKEND.replace("name: main, ", ""), "1: EventingBackend: metadata.name: Required value: must be set, or generateName must"),
        (BACKEND.replace("namespace: shop", "labels: {a: 1}"), "1: EventingBackend default/main: metadata.labels[a]: Invalid type: 1: must be of type string"),
        (SUBSCRIPTION.replace("types:", "typs:"), "1: Subscription shop/orders: spec.types: Required value: must be set"),
        (SUBSCRIPTION + "  typeMatching: Exact\n", "1: Subscription shop/orders: spec.typeMatching: Unsupported value: \"Exact\": must be one of 'standard', 'exact'"),
        (JSON_SERVER.replace("}'}", "}', replicas: -1}"), "1: JsonServer default/app-people: spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (JSON_SERVER.replace("app-", ""), "1: JsonServer default/people: metadata.name: Invalid value: \"people\": Invalid name: must start with 'app-'."),
    ],
    ids=lambda given: given[:60],
)  # fmt: skip
def test_validate_reports_each_sort_of_error(text, want):
    first, *_ = said(text)
    assert first.startswith(want)


def test_validate_rejects_unknown_field_and_suggests_a_similar_one():
    assert said(SUBSCRIPTION + "  typMatching: exact\n") == [
        "1: Subscription shop/orders: spec.typMatching: Unsupported value: there is no such field "
        "(did you mean 'typeMatching'?)"
    ]


def test_validate_warns_about_suspicious_values_without_failing():
    text = JSON_SERVER.replace('"people": []', '"version": 1')
    (line,) = said(text)
    assert line.startswith("1: JsonServer default/app-people: warning: spec.jsonConfig: version: ")


def test_validate_warns_about_deprecated_fields_like_the_webhook():
    (line,) = said((ROOT / "config/samples/checkup.yaml").read_text())
    assert line.endswith("warning: spec.timeout is deprecated and was replaced: use spec.timeoutSeconds")


def test_validate_skips_objects_of_other_products():
    answer = run(
        "-f", "-", text="apiVersion: v1\nkind: ConfigMap\n---\napiVersion: example.com/v1\nkind: Other\n"
    )
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert answer.stderr == "0 objects checked, 0 errors, 2 objects of other products skipped\n"


def test_validate_checks_the_items_of_a_list():
    bad = yaml.safe_load(BACKEND.replace("10", "ten"))
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(BACKEND), bad]})
    assert len(said(text)) == 1


def test_validate_uses_namespace_option_for_objects_without_one():
    text = SUBSCRIPTION.replace(", namespace: shop", "")
    assert said(text, "-n", "shop") == []
    (line,) = said(text)
    assert line.endswith("must have the same namespace as the subscriber, which is 'default'")


def test_validate_reads_the_manifests_of_a_directory(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.yaml").write_text(BACKEND)
    (tmp_path / "b.json").write_text(json.dumps(yaml.safe_load(BACKEND)))
    (tmp_path / "notes.txt").write_text("a: [")
    (tmp_path / "deep/c.yml").write_text(BACKEND.replace("10", "ten"))
    assert run("-f", tmp_path).stderr == "2 objects checked, 0 errors\n"
    deep = run("-R", "-f", tmp_path)
    assert (deep.exit_code, deep.stderr) == (1, "3 objects checked, 1 error\n")


def test_validate_prints_json():
    answer = run("-f", "-", "-o", "json", text=BACKEND.replace("10", "ten"))
    assert answer.exit_code == 1
    assert json.loads(answer.stdout) == {
        "checked": 1,
        "skipped": 0,
        "findings": [
            {
                "file": "standard input",
                "document": 1,
                "kind": "EventingBackend",
                "namespace": "shop",
                "name": "main",
                "severity": "error",
                "field": "spec.config[maxInFlightMessages]",
                "reason": "FieldValueTypeInvalid",
                "message": 'Invalid type: "ten": should be of type int',
            }
        ],
    }


@pytest.mark.parametrize("arguments", [(), ("-f", "not-there.yaml"), ("-f", "-", "-o", "xml")])
def test_validate_usage_error_exits_with_2(arguments):
    assert run(*arguments).exit_code == 2


def test_yaml_scalars_are_read_like_kubernetes_reads_them():
    text = BACKEND.replace("namespace: shop", "annotations: {a: 2026-01-31, b: 1:30, c: 12e03x}")
    assert said(text) == []
    for number in ("0x0a", "1_0", "012", "0o12", "+10", "10.0"):
        assert said(BACKEND.replace("Messages: 10", f"Messages: {number}")) == [], number


@settings(max_examples=300)
@given(CONFIGS)
def test_validate_webhook_status_and_discovery_report_equal_messages(drawn):
    name, config = drawn
    obj = {
        "apiVersion": EVENTINGBACKENDS.api_version,
        "kind": "EventingBackend",
        "metadata": {"name": "x"},
        "spec": {"type": name, "config": config},
    }
    found = validate_document(Document("f", 1, obj), "shop")
    in_form = config is None or (
        isinstance(config, list) and all(isinstance(entry, dict) and len(entry) == 1 for entry in config)
    )
    if not in_form:
        assert found.errors, "the definition refuses it before anybody else is asked"
        return
    # A required key that is left out is filled in before anybody judges, here as at admission.
    warning = admissions(ConfigErrors.WARN)[0]
    stored = warning.default(obj, review.Operation.CREATE)["spec"].get("config")
    faults = config_faults(CATALOG[name], stored)
    assert [error.message for error in found.errors] == [fault.error for fault in faults]
    assert [error.path.parts[-1] for error in found.errors] == [f"[{fault.config}]" for fault in faults]
    reply = json.loads(what_if(CATALOG[name], stored).body)
    assert [entry["error"] for entry in reply["validationErrors"]] == [fault.error for fault in faults]
    asked = review.AdmissionRequest(
        operation=review.Operation.CREATE, object={**obj, "spec": {"type": name, "config": stored}}
    )
    verdict = warning.validate(asked)
    assert verdict.errors == ()
    for warned, fault in zip(verdict.warnings, faults, strict=True):
        assert warned.endswith(fault.error)


VALIDATED = [kind for kind in kinds.all_kinds() if kind.admission]


def test_every_kind_of_a_controller_can_be_validated():
    assert [kind for kind in kinds.all_kinds() if kind.component] == VALIDATED


@pytest.mark.parametrize("kind", kinds.all_kinds(), ids=lambda kind: kind.name)
def test_registry_matches_the_declared_types(kind):
    declared = kinds.load(kind.declaration)
    assert (declared.resource.api_version, declared.resource.kind) == (kind.api_version, kind.name)
    assert not kind.admission or kinds.load(kind.admission).resource == declared.resource
    assert kinds.load(kind.rbac).PERMISSIONS


def test_every_schema_keyword_is_checked_or_ignored_on_purpose():
    def keywords(schema):
        yield from schema
        for name, child in schema.items():
            if name == "properties":
                yield from (word for each in child.values() for word in keywords(each))
            elif name in ("items", "additionalProperties") and isinstance(child, dict):
                yield from keywords(child)

    for kind in VALIDATED:
        schema = object_schema(kinds.load(kind.declaration))
        spec = schema["properties"]["spec"]
        assert set(keywords(spec)) <= CHECKED | SAID, kind.name


# Each of these is repeated by the validation of its kind, or by a bound of the schema.
SAID_ELSEWHERE = {
    "Invalid name: must start with 'app-'.",
    "Invalid replicas number.",
    "spec.timeoutSeconds is required and must be a number of seconds from 1 to 86400",
    "spec.timeout is the deprecated name of spec.timeoutSeconds: set only one of them",
    "must be a number of seconds from 1 to 86400",
    "selector must not be empty: an empty selector selects every pod",
    "must be a number from 1 to 10000",
    "spec.ttlSecondsAfterFinished must not be set with spec.schedule: such a Checkup never finishes",
    *(f"spec.{name} must not be set without spec.schedule" for name in SCHEDULE_FIELDS),
}


def rules_of(schema):
    yield from schema.get("x-kubernetes-validations", ())
    for child in schema.get("properties", {}).values():
        yield from rules_of(child)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from rules_of(schema[name])


def test_every_cel_rule_for_new_objects_is_implemented():
    written, known = set(), set()
    for kind in VALIDATED:
        for rule in rules_of(object_schema(kinds.load(kind.declaration))):
            written.add(rule["rule"])
            if "oldSelf" in rule["rule"] or rule["message"] in SAID_ELSEWHERE:
                known.add(rule["rule"])
    assert written - known == RULES.keys()


def a_statefulcluster(path, value):
    return yaml.safe_dump(with_value(a_cluster(), path, value))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (JSON_SERVER.replace("app-people", "app-people-"), "metadata.name: Invalid value"),
        (JSON_SERVER.replace("app-people", "app-my.people"), "Invalid value: Invalid name: must be at most 63"),
        (a_statefulcluster("metadata.name", "a" * 53), "Invalid value: must be at most 52 lower-case"),
        (a_statefulcluster("spec.template.spec.restartPolicy", "Never"), "spec.template: Invalid value: spec.restartPolicy must be Always"),
        (a_statefulcluster("spec.template.spec.activeDeadlineSeconds", 5), "spec.activeDeadlineSeconds must not be set"),
        (a_statefulcluster("spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {}}), "spec.updateStrategy: Invalid value: rollingUpdate is only allowed with type RollingUpdate"),
        (a_statefulcluster("spec.updateStrategy.rollingUpdate.maxUnavailable", "0%"), "maxUnavailable: Invalid value: must be a number above 0"),
        (a_statefulcluster("spec.updateStrategy.rollingUpdate.maxUnavailable", 0), "maxUnavailable: Invalid value: must be a number above 0"),
        (a_statefulcluster("spec.volumeClaimTemplates.0.metadata", {}), "every claim template needs a metadata.name"),
        ((ROOT / "config/samples/checkup-every-field.yaml").read_text().replace("timeoutSeconds: 60", "timeoutSeconds: 0"), "must be a number of seconds from 1 to 86400"),
        ((ROOT / "config/samples/checkup-every-field.yaml").read_text().replace("timeoutSeconds: 60", "params: {}"), "duplicate key 'params'"),
        ((ROOT / "config/samples/checkup-every-field.yaml").read_text().replace("timeoutSeconds: 60", "timeoutSeconds: 60\n  timeout: 61"), "spec.timeout"),
        ((ROOT / "config/samples/checkup-every-field.yaml").read_text().replace("  timeoutSeconds: 60", ""), "spec.timeoutSeconds: Required value"),
        (a_statefulcluster("spec.selector", {}), "spec.selector: Invalid value"),
    ],
    ids=lambda given: given[-60:],
)  # fmt: skip
def test_cel_rules_reject_invalid_objects_offline(text, want):
    found = said(text)
    assert any(want in line for line in found), found


@pytest.mark.parametrize("value", [1, "1%", "100%"])
def test_valid_statefulcluster_has_no_errors(value):
    text = a_statefulcluster("spec.updateStrategy.rollingUpdate.maxUnavailable", value)
    assert [line for line in said(text) if ": warning: " not in line] == []


@pytest.mark.parametrize(
    "sample", sorted((ROOT / "config/samples").glob("*.yaml")), ids=lambda path: path.stem
)
def test_samples_are_valid(sample):
    answer = run("-f", sample)
    assert answer.exit_code == 0, answer.output


def test_validate_imports_only_the_kinds_it_meets():
    script = (
        "import sys; sys.argv = ['quintet', 'validate', '-f', '-']\n"
        "from quintet.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'cryptography', 'aiohttp', 'uvloop', 'prometheus_client', 'quintet.components', 'asyncio'}\n"
        "print(heavy & set(sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, input=BACKEND)
    assert answer.stdout.strip() == "set()", answer.stderr
