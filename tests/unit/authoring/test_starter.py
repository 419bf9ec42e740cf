"""`quintet new`: what it prints is right, and says all that there is to say."""

import re

import pytest
from click.testing import CliRunner

from kit.manifests import yamltext
from quintet.apis.meta import JsonObject
from quintet.apis.resources import CustomResource
from quintet.authoring.annotated_yaml import annotate
from quintet.cli.verbs.change.new import new
from quintet.cli.verbs.change.validate import validate
from quintet.inspect.kinds import all_kinds
from quintet.manifests.crd import object_schema

KINDS = all_kinds()
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.resource.kind for kind in KINDS])
brief_and_full = pytest.mark.parametrize("options", [(), ("--full",)], ids=["brief", "full"])


def printed(*arguments: str) -> str:
    answer = CliRunner().invoke(new, arguments, standalone_mode=False)
    assert answer.exception is None, answer.exception
    return answer.output


def the_object(text: str, kind: CustomResource) -> JsonObject:
    (found,) = [each for each in yamltext.load_all(text) if each["kind"] == kind.resource.kind]
    return dict(found)


@each_kind
@brief_and_full
def test_starter_manifest_is_valid(kind: CustomResource, options):
    answer = CliRunner().invoke(validate, ["-f", "-"], input=printed(kind.resource.plural, *options))
    assert answer.exit_code == 0, answer.output


@each_kind
def test_starter_manifest_has_all_required_fields(kind: CustomResource):
    schema = object_schema(kind)["properties"]["spec"]
    found = the_object(printed(kind.resource.plural), kind)
    assert found["spec"].keys() >= set(schema.get("required", ()))


def described(schema: JsonObject) -> set[str]:
    """The names of all fields, at any depth, that a definition describes."""
    found = set()
    for name, child in schema.get("properties", {}).items():
        if child.get("description"):
            found |= {name} | described(child)
    items = schema.get("items")
    return found | (described(items) if isinstance(items, dict) else set())


@each_kind
def test_full_starter_manifest_has_every_described_field_or_comment(kind: CustomResource):
    text = printed(kind.resource.plural, "--full")
    names = set(re.findall(r"^[ #-]*([A-Za-z]+):", text, re.MULTILINE))
    assert described(object_schema(kind)["properties"]["spec"]) - names == set()


@each_kind
def test_starter_manifest_describes_each_top_level_spec_field(kind: CustomResource):
    schema = object_schema(kind)["properties"]["spec"]
    lines = printed(kind.resource.plural).splitlines()
    found = the_object("\n".join(lines), kind)
    for name in found["spec"]:
        (number,) = [
            number
            for number, line in enumerate(lines)
            if line.startswith(f"  {name}:") and lines[number - 1].startswith("  #")
        ]
        words = schema["properties"][name]["description"].split()[:3]
        above = " ".join(line.strip(" #") for line in lines[max(number - 5, 0) : number])
        assert " ".join(words) in above, name


def test_starter_manifest_uses_the_given_name_everywhere():
    service, cluster = yamltext.load_all(printed("stc", "shop"))
    assert (
        service["metadata"]["name"] == cluster["metadata"]["name"] == cluster["spec"]["serviceName"] == "shop"
    )
    assert cluster["spec"]["selector"] == {"matchLabels": {"app": "shop"}}
    assert cluster["spec"]["template"]["metadata"]["labels"] == service["spec"]["selector"] == {"app": "shop"}


def test_starter_manifest_uses_the_given_namespace_in_objects_and_urls():
    found = yamltext.load(printed("subscription", "-n", "orders"))
    assert found["metadata"] == {"name": "orders", "namespace": "orders"}
    assert found["spec"]["sink"] == "http://orders.orders.svc.cluster.local:8080/events"
    assert {each["metadata"]["namespace"] for each in yamltext.load_all(printed("ckup", "-n", "lab"))} == {
        "lab"
    }


def test_starter_manifest_without_namespace_option_has_none():
    assert all("namespace" not in each["metadata"] for each in yamltext.load_all(printed("ckup")))


def test_starter_manifest_has_no_deprecated_fields():
    assert not re.search(r"\btimeout\b:", printed("checkup"))


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("js", "web"), "must start with 'app-'"),
        (("quintet", "mine"), "the only object of this kind is named quintet"),
    ],
)
def test_new_rejects_an_invalid_name(arguments, want):
    answer = CliRunner().invoke(new, arguments)
    assert (answer.exit_code, answer.output) == (1, "")
    assert want in str(answer.exception)


def test_uncommented_fields_of_full_manifest_are_valid():
    schema = {
        "properties": {
            "there": {"description": "Is there.", "type": "string"},
            "parts": {
                "description": "Some parts.",
                "type": "array",
                "items": {
                    "required": ["name"],
                    "properties": {
                        "name": {"description": "Of the part.", "type": "string"},
                        "size": {"description": "How large.", "type": "integer", "default": 3},
                    },
                },
            },
        }
    }
    lines = annotate({"there": "yes it is"}, schema, full=True)
    assert lines == [
        "# Is there.",
        "there: yes it is",
        "# Some parts.",
        "# parts:",
        "#   # Of the part. Required.",
        '#   - name: ""',
        "#     # How large. Default: 3.",
        "#     size: 3",
    ]
    free = "\n".join(line.removeprefix("# ") for line in lines[3:])
    assert yamltext.load(free) == {"parts": [{"name": "", "size": 3}]}
