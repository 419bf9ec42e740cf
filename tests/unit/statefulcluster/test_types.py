"""What the controller reads of a StatefulCluster, and what its schema says."""

import dataclasses
import json

import msgspec
import pytest

from kit.kinds.statefulcluster_manifests import WEB, a_cluster
from quintet.apis.lint import problems
from quintet.apis.statefulcluster import (
    LONGEST_NAME,
    STATEFULCLUSTER,
    SUFFIX_LENGTH,
    Retention,
    StatefulCluster,
    StatefulClusterSpec,
    StatefulClusterStatus,
    Update,
)
from quintet.manifests.crd import MOST_BYTES, custom_resource_definition, object_schema, size_as_annotation


def read(cluster):
    return msgspec.json.decode(json.dumps(cluster), type=StatefulCluster)


def test_templates_are_kept_unchanged():
    spec = read(a_cluster()).spec
    assert spec.template == WEB["template"]
    assert list(spec.volume_claim_templates) == WEB["volumeClaimTemplates"]


def test_defaults_equal_those_of_a_statefulset():
    spec = read(a_cluster(replicas=None, serviceName=None, minReadySeconds=None)).spec
    assert spec.replicas == 1
    assert spec.revision_history_limit == 10
    assert spec.update_strategy.type is Update.ROLLING_UPDATE
    assert spec.update_strategy.rolling_update.partition == 0
    assert spec.update_strategy.rolling_update.max_unavailable == 1
    assert spec.persistent_volume_claim_retention_policy.when_scaled is Retention.RETAIN


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({}, (True, False, 30)),
        ({"enge.me/claim-adoption": "Never"}, (False, False, 30)),
        ({"enge.me/claim-adoption": "never"}, (True, False, 30)),
        ({"enge.me/plan-only": "true"}, (True, True, 30)),
        ({"enge.me/plan-only": "false"}, (True, False, 30)),
        ({"enge.me/plan-only": "yes"}, (True, True, 30)),
        ({"enge.me/unhealthy-grace-seconds": "600"}, (True, False, 600)),
        ({"enge.me/unhealthy-grace-seconds": "0"}, (True, False, 0)),
        ({"enge.me/unhealthy-grace-seconds": "ten"}, (True, False, 30)),
        ({"enge.me/unhealthy-grace-seconds": "9" * 5000}, (True, False, 30)),
        ({"enge.me/unhealthy-grace-seconds": "999999"}, (True, False, 86400)),
    ],
)
def test_invalid_annotations_are_ignored(annotations, want):
    cluster = read(a_cluster(annotations=annotations))
    assert (cluster.adopts_claims, cluster.plan_only, cluster.unhealthy_grace) == want


def test_zero_counts_are_encoded():
    assert msgspec.to_builtins(StatefulClusterStatus())["availableReplicas"] == 0


def test_generated_names_fit_their_limits():
    longest = "x" * LONGEST_NAME
    assert len(f"{longest}-{'r' * 10}") <= 63, "a revision is a label"
    assert len(f"{longest}-{'d' * SUFFIX_LENGTH}") <= 63, "a replica is a host name and a label"
    assert len(f"{'t' * 63}-{longest}-{'d' * SUFFIX_LENGTH}") <= 253, "a claim is the name of an object"


def test_status_schema_describes_every_field():
    assert [found for found in problems(object_schema(STATEFULCLUSTER)) if found.startswith("status")] == []


def test_every_spec_field_has_a_description():
    fields = object_schema(STATEFULCLUSTER)["properties"]["spec"]["properties"]
    assert [name for name, schema in fields.items() if "description" not in schema] == []


def test_typed_fields_have_the_kubernetes_types():
    plain = custom_resource_definition(dataclasses.replace(STATEFULCLUSTER, spec_from=""))
    ours = plain["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    theirs = object_schema(STATEFULCLUSTER)["properties"]["spec"]
    assert {field.encode_name for field in msgspec.structs.fields(StatefulClusterSpec)} == set(
        theirs["properties"]
    )
    assert list(differences(ours, theirs, "spec")) == []


def differences(ours, theirs, path):
    for key in ("type", "x-kubernetes-int-or-string", "x-kubernetes-list-type"):
        if ours.get(key) != theirs.get(key):
            yield f"{path}: {key} is {ours.get(key)} here and {theirs.get(key)} in Kubernetes"
    for name, field in ours.get("properties", {}).items():
        yield from differences(field, theirs["properties"][name], f"{path}.{name}")


def test_crd_fits_into_the_last_applied_annotation():
    assert size_as_annotation(custom_resource_definition(STATEFULCLUSTER)) < MOST_BYTES
