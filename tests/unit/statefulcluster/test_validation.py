"""Refusals and warnings of a StatefulCluster, in the words of its users."""

import copy

import pytest

from kit.kinds.statefulcluster_manifests import WEB, a_cluster, with_value
from quintet.apis.statefulcluster import validate

CLAIM = WEB["volumeClaimTemplates"][0]
POD = "spec.template.spec"
STORAGE = "spec.volumeClaimTemplates.0.spec.resources.requests.storage"


def refusals(cluster, old=None):
    return [str(error) for error in validate(cluster, old).errors]


def warnings(cluster):
    found = validate(cluster)
    assert found.errors == ()
    return list(found.warnings)


def test_example_of_the_kubernetes_documentation_is_accepted_without_warnings():
    assert validate(a_cluster()) == ((), ())


REFUSED = {
    "a selector that selects nothing of the template": (
        with_value(a_cluster(), "spec.template.metadata.labels", {"app": "other"}),
        'spec.template.metadata.labels: Invalid value: {"app": "other"}: spec.selector does not match these labels '
        "(add the labels of spec.selector to the pod template)",
    ),
    "an expression that does not hold": (
        a_cluster(selector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}),
        'spec.template.metadata.labels: Invalid value: {"app": "nginx"}: spec.selector does not match these labels '
        "(add the labels of spec.selector to the pod template)",
    ),
    "an empty selector": (
        a_cluster(selector={}),
        "spec.selector: Invalid value: {}: must not be empty: an empty selector selects every pod",
    ),
    "a selector that is none": (
        a_cluster(selector={"matchLabels": {"app": "a b"}}),
        'spec.selector.matchLabels[app]: Invalid value: "a b": is not the value of a label',
    ),
    "a label that is ours to set": (
        with_value(a_cluster(), "spec.template.metadata.labels", {"app": "nginx", "enge.me/replica": "x"}),
        "spec.template.metadata.labels[enge.me/replica]: Forbidden: the controller sets this label",
    ),
    "a service name that is none": (
        a_cluster(serviceName="Web.example"),
        "spec.serviceName: Invalid value: \"Web.example\": must be the name of a Service: lower-case letters, digits, '-'",
    ),
    "a pod without containers": (
        with_value(a_cluster(volumeClaimTemplates=None), f"{POD}.containers", []),
        "spec.template.spec.containers: Required value: a pod needs at least one container",
    ),
    "two containers of one name": (
        with_value(a_cluster(), f"{POD}.initContainers", [{"name": "nginx", "image": "x"}]),
        'spec.template.spec.containers[0].name: Duplicate value: "nginx": must be unique',
    ),
    "a mount of nothing": (
        a_cluster(volumeClaimTemplates=None),
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "www": is neither in template.spec.volumes '
        "nor in volumeClaimTemplates",
    ),
    "a quantity that is none": (
        with_value(a_cluster(), f"{POD}.containers.0.resources", {"limits": {"cpu": "much"}}),
        'spec.template.spec.containers[0].resources.limits[cpu]: Invalid value: "much": is not a quantity such as '
        "500m, 2 or 1Gi",
    ),
    "a negative quantity": (
        with_value(a_cluster(), f"{POD}.resources", {"requests": {"memory": "-1Gi"}}),
        'spec.template.spec.resources.requests[memory]: Invalid value: "-1Gi": must not be negative',
    ),
    "a loss of data after no time at all": (
        a_cluster(cluster={"dataLoss": {"after": "59s"}}),
        'spec.cluster.dataLoss.after: Invalid value: "59s": must be a duration of at least 1m, such as 10m or 1h30m',
    ),
    "a loss of data after something else": (
        a_cluster(cluster={"dataLoss": {"after": "soon"}}),
        'spec.cluster.dataLoss.after: Invalid value: "soon": must be a duration of at least 1m, such as 10m or 1h30m',
    ),
    "a time to keep claims that is none": (
        a_cluster(cluster={"whenScaled": {"after": "a week"}}),
        'spec.cluster.whenScaled.after: Invalid value: "a week": must be a duration, such as 12h or 7d',
    ),
    "a consent that names no uids": (
        a_cluster(annotations={"enge.me/give-up-claims": "all"}),
        'metadata.annotations[enge.me/give-up-claims]: Invalid value: "all": must be uids of claims, separated by commas',
    ),
    "a claim template without a name": (
        a_cluster(volumeClaimTemplates=[CLAIM, CLAIM | {"metadata": {}}]),
        "spec.volumeClaimTemplates[1].metadata.name: Required value: the claims and the volume of the pod are named "
        "after it",
    ),
    "a claim template with a name that no volume can have": (
        a_cluster(volumeClaimTemplates=[CLAIM, CLAIM | {"metadata": {"name": "a.b"}}]),
        'spec.volumeClaimTemplates[1].metadata.name: Invalid value: "a.b": must be at most 63 lower-case letters, '
        "digits and '-': it names a volume",
    ),
    "two claim templates of one name": (
        a_cluster(volumeClaimTemplates=[CLAIM, CLAIM]),
        'spec.volumeClaimTemplates[1].metadata.name: Duplicate value: "www": must be unique',
    ),
    "a claim without access modes": (
        with_value(a_cluster(), "spec.volumeClaimTemplates.0.spec.accessModes", []),
        "spec.volumeClaimTemplates[0].spec.accessModes: Required value: must name at least one access mode",
    ),
    "an access mode that must stand alone": (
        with_value(
            a_cluster(), "spec.volumeClaimTemplates.0.spec.accessModes", ["ReadWriteOncePod", "ReadWriteOnce"]
        ),
        "spec.volumeClaimTemplates[0].spec.accessModes: Forbidden: ReadWriteOncePod must stand alone",
    ),
    "a claim without a size": (
        with_value(a_cluster(), "spec.volumeClaimTemplates.0.spec.resources", {}),
        "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Required value: must say how large the volume "
        "is to be",
    ),
    "a claim of no size": (
        with_value(a_cluster(), STORAGE, "0"),
        'spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Invalid value: "0": must be a size such as 10Gi',
    ),
    "a misspelt adoption": (
        a_cluster(annotations={"enge.me/claim-adoption": "never"}),
        "metadata.annotations[enge.me/claim-adoption]: Unsupported value: \"never\": must be one of 'Always', 'Never' "
        "(did you mean 'Never'?)",
    ),
    "a plan-only that is neither true nor false": (
        a_cluster(annotations={"enge.me/plan-only": "yes"}),
        "metadata.annotations[enge.me/plan-only]: Unsupported value: \"yes\": must be one of 'true', 'false'",
    ),
    "a grace that is no number": (
        a_cluster(annotations={"enge.me/unhealthy-grace-seconds": "30s"}),
        'metadata.annotations[enge.me/unhealthy-grace-seconds]: Invalid value: "30s": must be whole seconds from 0 to 86400',
    ),
    "a grace that never ends": (
        a_cluster(annotations={"enge.me/unhealthy-grace-seconds": "9999999999"}),
        'metadata.annotations[enge.me/unhealthy-grace-seconds]: Invalid value: "9999999999": must be whole seconds from '
        "0 to 86400",
    ),
}


@pytest.mark.parametrize(("cluster", "want"), REFUSED.values(), ids=REFUSED)
def test_invalid_spec_is_refused(cluster, want):
    assert refusals(cluster) == [want]


def test_all_errors_are_reported_at_once():
    cluster = a_cluster(serviceName="_", selector={}, volumeClaimTemplates=[{}])
    assert len(refusals(cluster)) == 6


WARNED = {
    "ordinals": (
        a_cluster(ordinals={"start": 5}),
        "spec.ordinals: is ignored, because replicas have random names and no ordinals",
    ),
    "a history without end": (
        a_cluster(revisionHistoryLimit=-1),
        "spec.revisionHistoryLimit: a negative number keeps all revisions",
    ),
    "a partition that covers everything": (
        a_cluster(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}),
        "spec.updateStrategy.rollingUpdate.partition: covers all replicas: no rollout happens",
    ),
    "a host name": (
        with_value(a_cluster(), f"{POD}.hostname", "fixed"),
        "spec.template.spec.hostname: is ignored, because every replica gets its own",
    ),
    "a claim in the place of a volume": (
        with_value(a_cluster(), f"{POD}.volumes", [{"name": "www", "emptyDir": {}}]),
        "spec.volumeClaimTemplates[0]: replaces the pod template's volume 'www'",
    ),
    "a claim that nobody mounts": (
        with_value(a_cluster(), f"{POD}.containers.0.volumeMounts", []),
        "spec.volumeClaimTemplates[0]: no container mounts 'www'",
    ),
    "one volume for all": (
        with_value(a_cluster(), "spec.volumeClaimTemplates.0.spec.volumeName", "disk-1"),
        "spec.volumeClaimTemplates[0].spec.volumeName: only one replica can bind that volume",
    ),
    "a misspelt annotation": (
        a_cluster(annotations={"enge.me/plan": "true"}),
        "metadata.annotations[enge.me/plan]: unknown annotation, ignored; known are enge.me/claim-adoption, enge.me/plan-only, "
        "enge.me/unhealthy-grace-seconds, enge.me/give-up-claims",
    ),
}


@pytest.mark.parametrize(("cluster", "want"), WARNED.values(), ids=WARNED)
def test_suspicious_spec_gives_a_warning(cluster, want):
    assert warnings(cluster) == [want]


ACCEPTED = {
    "numbers as quantities": with_value(
        a_cluster(), f"{POD}.containers.0.resources", {"limits": {"cpu": 0.5, "x": 2}}
    ),
    "a volume of the template beside the claims": with_value(
        with_value(a_cluster(), f"{POD}.volumes", [{"name": "tmp", "emptyDir": {}}]),
        f"{POD}.initContainers",
        [{"name": "prepare", "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}],
    ),
    "a block device": with_value(
        with_value(a_cluster(), f"{POD}.containers.0.volumeMounts", []),
        f"{POD}.containers.0.volumeDevices",
        [{"name": "www", "devicePath": "/dev/x"}],
    ),
    "no service": a_cluster(serviceName=None),
    "annotations of ours": a_cluster(
        annotations={
            "enge.me/claim-adoption": "Never",
            "enge.me/plan-only": "false",
            "enge.me/unhealthy-grace-seconds": "600",
            "example.com/other": "x",
        }
    ),
    "a partition in the middle": a_cluster(updateStrategy={"rollingUpdate": {"partition": 1}}),
}


@pytest.mark.parametrize("cluster", ACCEPTED.values(), ids=ACCEPTED)
def test_valid_spec_gives_no_warning(cluster):
    assert validate(cluster) == ((), ())


@pytest.mark.parametrize("size", ["1Gi", "1024Mi", "2Gi", 2**31])
def test_a_claim_may_stay_as_large_as_it_is_or_grow(size):
    assert refusals(with_value(a_cluster(), STORAGE, size), a_cluster()) == []


def test_a_claim_must_not_shrink():
    assert refusals(with_value(a_cluster(), STORAGE, "1000Mi"), a_cluster()) == [
        'spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Invalid value: "1000Mi": must not shrink '
        "(volumes only grow)"
    ]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.storageClassName", "other"),
        ("spec.accessModes", ["ReadWriteMany"]),
        ("spec.volumeMode", "Block"),
        ("metadata.labels", {"a": "b"}),
        ("metadata.name", "data"),
    ],
)
def test_nothing_else_of_a_claim_template_may_change(path, value):
    new = with_value(a_cluster(), f"spec.volumeClaimTemplates.0.{path}", value)
    new = with_value(new, f"{POD}.containers.0.volumeMounts", [])
    assert refusals(new, a_cluster()) == [
        "spec.volumeClaimTemplates[0]: Immutable: must not be changed (only spec.resources.requests.storage can change; "
        "for more, make a new StatefulCluster)"
    ]


def test_claim_templates_cannot_be_added_or_removed():
    more = a_cluster(volumeClaimTemplates=[CLAIM, CLAIM | {"metadata": {"name": "log"}}])
    want = (
        "spec.volumeClaimTemplates: Immutable: must not be changed (the replicas that there are would lack a claim; make "
        "a new StatefulCluster)"
    )
    assert want in refusals(more, a_cluster())
    assert want in refusals(a_cluster(), more)


def test_server_defaults_in_a_claim_template_are_no_change():
    shown = copy.deepcopy(CLAIM) | {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "status": {"phase": "Pending"},
    }
    assert refusals(a_cluster(volumeClaimTemplates=[shown]), a_cluster()) == []
