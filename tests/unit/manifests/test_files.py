"""Generated files are stable, readable, checked and cleaned up."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.manifests import yamltext
from quintet.manifests import files
from quintet.manifests.__main__ import main
from quintet.manifests.crd import custom_resource_definition, object_schema
from quintet.manifests.text import HEADER, as_yaml
from unit.apis.sample_kind import LIBRARY

FILE = "config/crd/libraries.samples.quintet.dev.yaml"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values, max_size=3))
def test_yaml_round_trip_preserves_object(document):
    text = as_yaml(document)
    assert yamltext.load(text) == document
    assert as_yaml(json.loads(json.dumps(document))) == text, "order and spelling are stable"


def test_multi_line_text_is_written_as_block():
    assert "description: |-\n  One.\n\n  Two.\n" in as_yaml({"description": "One.\n\nTwo."})


def test_crd_contains_declared_names_and_columns():
    spec = custom_resource_definition(LIBRARY)["spec"]
    assert spec["names"] == {
        "kind": "Library",
        "listKind": "LibraryList",
        "plural": "libraries",
        "singular": "library",
        "shortNames": ["lib"],
        "categories": ["quintet"],
    }
    (version,) = spec["versions"]
    assert list(version["subresources"]) == ["status", "scale"]
    assert [column["name"] for column in version["additionalPrinterColumns"]] == [
        "Ready",
        "Replicas",
        "Owner",
        "Age",
        "Message",
    ]
    assert version["additionalPrinterColumns"][-1]["priority"] == 1
    assert version["selectableFields"] == [{"jsonPath": ".spec.owner"}, {"jsonPath": ".spec.storage"}]


def test_object_schema_starts_with_type_and_metadata():
    schema = object_schema(LIBRARY)
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["x-kubernetes-validations"][0]["message"] == "must be named 'lib-…'"


def test_generate_and_check_agree(tmp_path, capsys):
    root = ["--root", str(tmp_path)]
    assert main([*root, "--check"], [LIBRARY]) == 1
    assert capsys.readouterr().err == (
        f"these generated files are out of date:\n  {FILE}\nnext step: make generate\n"
    )
    assert main(root, [LIBRARY]) == 0
    assert capsys.readouterr().out == f"wrote {FILE}\n"
    assert (tmp_path / FILE).read_text().startswith(HEADER)
    assert main([*root, "--check"], [LIBRARY]) == 0
    assert main(root, [LIBRARY]) == 0
    assert capsys.readouterr() == ("", ""), "a second run finds nothing to do"


def test_files_of_removed_kinds_are_deleted_and_manual_files_kept(tmp_path, capsys):
    root = ["--root", str(tmp_path)]
    main(root, [LIBRARY])
    (tmp_path / "config/crd/kustomization.yaml").write_text("resources: []\n")
    assert main([*root, "--check"], []) == 1
    assert main(root, []) == 0
    assert f"removed {FILE}" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "config/crd").iterdir()] == ["kustomization.yaml"]


def test_oversized_crd_is_rejected(monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"libraries.samples.quintet.dev has \d+ bytes"):
        files.generate([LIBRARY])
