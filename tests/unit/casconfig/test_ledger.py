"""What a ledger looks like, what it may say, and what happens when somebody else writes one."""

import json
import re

import pytest

from quintet.apis.casconfig.layers import build_rewrite, original
from quintet.apis.casconfig.ledger import (
    LARGEST,
    PREFIX,
    LedgerError,
    LedgerTooLargeError,
    annotation,
    has_ledger,
    ledgers,
    without_ledgers,
)
from quintet.apis.casconfig.types import LONGEST_NAME
from quintet.apis.meta import ObjectKey
from unit.casconfig.objects import HIGH, LOW, TEMPLATE, a_deployment, container, given, pod_of


def written(obj, config=LOW):
    return json.loads(obj["metadata"]["annotations"][annotation(config, "shop")])


def test_ledger_is_readable_json():
    after = given(a_deployment(), LOW, labels={"app": "new", "team": "a"}, envs={"LEVEL": "debug"}).object
    assert written(after) == {
        "of": "shop/low",
        "layer": 1,
        "pod": "spec.template.spec",
        "set": {
            "initContainers/init/env/LEVEL": {"is": {"name": "LEVEL", "value": "debug"}, "made": 1},
            "containers/web/env/LEVEL": {
                "was": {"name": "LEVEL", "value": "info"},
                "is": {"name": "LEVEL", "value": "debug"},
                "at": 0,
            },
            "containers/log/env/LEVEL": {"is": {"name": "LEVEL", "value": "debug"}, "made": 1},
            "labels/app": {"was": "web", "is": "new"},
            "labels/team": {"is": "a"},
        },
    }


def test_annotation_key_with_slash_keeps_its_path():
    after = given(a_deployment(), LOW, annotations={"a.b/c~d": "x"}).object
    assert list(written(after)["set"]) == ["annotations/a.b~1c~0d"]
    assert build_rewrite(after, LOW, ()).object == a_deployment()


def test_ledger_key_contains_config_name_and_namespace():
    assert annotation(LOW, "shop") == f"{PREFIX}low"
    elsewhere = {annotation(ObjectKey(namespace, "low"), "other") for namespace in ("shop", "shop-2", "a")}
    assert len(elsewhere) == 3
    assert all(re.fullmatch(f"{PREFIX}low_[0-9a-f]{{12}}", key) for key in elsewhere)


def test_ledger_key_of_the_longest_name_is_a_valid_annotation_key():
    key = annotation(ObjectKey("n" * 63, "c" * LONGEST_NAME), "elsewhere")
    assert len(key.partition("/")[2]) == 63


def test_has_ledger_needs_only_metadata():
    after = given(a_deployment(), LOW, labels={"a": "b"}).object
    assert has_ledger({"metadata": after["metadata"]}, LOW)
    assert not has_ledger({"metadata": after["metadata"]}, ObjectKey("other", "low"))


def forged(**changes):
    body = {"of": "shop/low", "layer": 1, "pod": "spec.template.spec", "set": {}, **changes}
    return a_deployment(annotations={f"{PREFIX}low": json.dumps(body)})


FORGED = {
    "no JSON": a_deployment(annotations={f"{PREFIX}low": "{"}),
    "no object": a_deployment(annotations={f"{PREFIX}low": "[]"}),
    "another config": forged(of="shop/high"),
    "an unknown field": forged(extra=1),
    "a pod in another place": forged(pod="metadata"),
    "the ServiceAccount of the pod": forged(set={"serviceAccountName": {"is": "a", "was": "admin"}}),
    "the volumes of the pod": forged(set={"volumes/x": {"was": {"name": "x", "hostPath": {"path": "/"}}}}),
    "owner references": forged(set={"ownerReferences/x": {"was": {}}}),
    "all labels": forged(set={"labels": {"was": {}}}),
    "all containers": forged(set={"containers": {"was": []}}),
    "another ledger": forged(set={f"annotations/{PREFIX.replace('/', '~1')}high": {"was": "{}"}}),
    "a privileged container": forged(
        set={"containers/web": {"was": {"name": "web", "securityContext": {"privileged": True}}}}
    ),
    "a field that makes a container privileged": forged(
        set={"containers/web/securityContext/privileged": {"was": True}}
    ),
    "a container that another config would set again": forged(
        set={"containers/web/securityContext": {"is": {"privileged": True}}}
    ),
    "a port of the node": forged(
        set={"containers/web/ports/80~1TCP": {"was": {"containerPort": 80, "hostPort": 80}}}
    ),
    "a part of a port": forged(set={"containers/web/ports/80~1TCP/hostPort": {"was": 80}}),
    "a probe of another host": forged(
        set={"initContainers/init/startupProbe/httpGet/host": {"was": "10.0.0.1"}}
    ),
    "an annotation of Quintet": forged(set={"annotations/quintet.dev~1paused": {"was": "true"}}),
    "a label that is no text": forged(set={"labels/a": {"was": {"b": "c"}}}),
    "a container under another name": forged(set={"containers/web": {"was": {"name": "evil"}}}),
    "a place that is none": forged(set={"labels/a": {"at": -1}}),
    "a word that is none": forged(set={"labels/a": {"will": "be"}}),
}


@pytest.mark.parametrize("obj", FORGED.values(), ids=FORGED.keys())
def test_forged_ledger_is_refused(obj):
    for act in (
        lambda obj: ledgers(obj, LOW),
        lambda obj: build_rewrite(obj, LOW, ()),
        lambda obj: given(obj, LOW, labels={"a": "b"}),
    ):
        with pytest.raises(LedgerError, match=r"metadata\.annotations\[casconfig.openebs.io/low\]"):
            act(obj)


@pytest.mark.parametrize("obj", FORGED.values(), ids=FORGED.keys())
def test_forged_ledger_is_an_ordinary_annotation_to_other_configs(obj):
    assert original(obj) == obj
    first = given(obj, HIGH, labels={"a": "b"}, envs={"LEVEL": "debug"})
    assert container(first.object, "web")["env"] == [{"name": "LEVEL", "value": "debug"}]
    assert first.object["metadata"]["annotations"][f"{PREFIX}low"] == forged_text(obj)
    assert build_rewrite(first.object, HIGH, ()).object == obj


def forged_text(obj):
    return obj["metadata"]["annotations"][f"{PREFIX}low"]


def test_oversized_annotation_of_another_config_does_not_count_as_a_ledger_of_this_one():
    live = a_deployment(annotations={f"{PREFIX}low": "x" * (LARGEST + 1)})
    assert given(live, HIGH, labels={"a": "b"}).object["metadata"]["labels"]["a"] == "b"


def test_oversized_ledger_is_refused_with_a_next_step():
    huge = {f"k{number}": "x" * 60_000 for number in range(2)}
    with pytest.raises(
        LedgerTooLargeError, match=f"this config changes takes .* {LARGEST} are allowed; set less"
    ):
        given(a_deployment(), LOW, annotations=huge)


def test_oversized_annotations_are_refused():
    live = a_deployment(annotations={f"k{number}": "x" * 60_000 for number in range(4)})
    with pytest.raises(LedgerTooLargeError, match="annotations would have more than"):
        given(live, LOW, annotations={"a": "x" * 30_000})


def test_undo_succeeds_even_if_annotations_exceed_the_limit():
    live = a_deployment()
    container(live, "web")["args"] = ["x" * 70_000]
    small = given(live, HIGH, labels={"a": "b"}).object
    text = small["metadata"]["annotations"][annotation(HIGH, "shop")]
    ledger = json.loads(text)
    ledger["set"]["containers/web"] = {"was": container(live, "web"), "at": 0}
    small["metadata"]["annotations"][annotation(HIGH, "shop")] = json.dumps(ledger)
    pod_of(small)["containers"] = pod_of(small)["containers"][1:]
    below = a_ledger_of(LOW, small)
    assert build_rewrite(build_rewrite(below, LOW, ()).object, HIGH, ()).object == live


def a_ledger_of(config, obj):
    body = {"of": str(config), "layer": 0, "set": {"labels/app": {"was": "web", "is": "web"}}}
    metadata = obj["metadata"]
    return {
        **obj,
        "metadata": {
            **metadata,
            "annotations": {**metadata["annotations"], annotation(config, "shop"): json.dumps(body)},
        },
    }


def test_object_without_ledgers_is_not_copied():
    live = a_deployment()
    assert without_ledgers(live) is live
    assert original(live) is live


def test_undo_removes_an_empty_annotations_field():
    live = a_deployment()
    del live["metadata"]["annotations"]
    after = given(live, LOW, annotations={"a": "b"}).object
    assert build_rewrite(after, LOW, ()).object == live


def test_ledger_stores_the_pod_path_so_that_undo_needs_no_schema():
    after = given(a_deployment(), LOW, envs={"E": "1"}).object
    assert [ledger.pod for ledger in ledgers(after)] == [TEMPLATE]
