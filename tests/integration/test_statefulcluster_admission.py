"""Rejections and warnings of StatefulClusters through `quintet run --webhooks url`, as kubectl shows them.

The admission policies prevent privilege escalation. test_statefulcluster_crd.py covers what the API server rejects
without webhooks and policies.
"""

import json
from collections.abc import AsyncIterator

import pytest

from kit.cli.quintet import apply, with_webhooks
from kit.cluster.access_reviews import wait_until_allowed
from kit.eventually import eventually
from kit.kinds.statefulcluster_manifests import WEB, a_cluster, with_value
from kit.kinds.statefulclusters import install
from kit.process import Program
from quintet.apis.statefulcluster import PLAN_ONLY, STATEFULCLUSTERS
from quintet.controllers.statefulcluster.rbac import USER_REQUIREMENTS
from quintet.kube.client import Client
from quintet.manifests.policy import policies

STORAGE = "spec.volumeClaimTemplates.0.spec.resources.requests.storage"
# No pods are needed: the tests are about admission.
IDLE = {PLAN_ONLY: "true"}


@pytest.fixture(scope="module")
async def webhooks(client: Client, cluster) -> AsyncIterator[Program]:
    await install(client)
    async with with_webhooks(cluster.kubeconfig, "statefulcluster") as program:
        yield program


def test_example_from_documentation_is_accepted_without_warning(webhooks, cluster, namespace):
    done = apply(cluster, namespace, a_cluster(annotations=IDLE))
    assert (done.returncode, done.stderr) == (0, "")


def test_selector_that_does_not_match_template_is_rejected(webhooks, cluster, namespace):
    done = apply(
        cluster, namespace, with_value(a_cluster(), "spec.template.metadata.labels", {"app": "other"})
    )
    assert done.returncode != 0
    assert "spec.template.metadata.labels: Invalid value: " in done.stderr
    assert "spec.selector does not match these labels" in done.stderr


def test_misspelt_annotation_value_is_rejected_with_suggestion(webhooks, cluster, namespace):
    done = apply(cluster, namespace, a_cluster(annotations={"enge.me/claim-adoption": "never"}))
    assert done.returncode != 0
    assert "did you mean 'Never'?" in done.stderr


def test_ordinals_are_accepted_with_warning(webhooks, cluster, namespace):
    done = apply(cluster, namespace, a_cluster(annotations=IDLE, ordinals={"start": 5}))
    assert done.returncode == 0
    assert "Warning: spec.ordinals: is ignored" in done.stderr


def test_claim_size_can_grow_but_not_shrink(webhooks, cluster, namespace):
    assert apply(cluster, namespace, a_cluster(annotations=IDLE)).returncode == 0
    larger = apply(cluster, namespace, with_value(a_cluster(annotations=IDLE), STORAGE, "2Gi"))
    assert larger.returncode == 0, larger.stderr
    smaller = apply(cluster, namespace, with_value(a_cluster(annotations=IDLE), STORAGE, "1Gi"))
    assert smaller.returncode != 0
    assert "must not shrink (volumes only grow)" in smaller.stderr


def test_changed_storage_class_is_rejected(webhooks, cluster, namespace):
    assert apply(cluster, namespace, a_cluster(annotations=IDLE)).returncode == 0
    path = "spec.volumeClaimTemplates.0.spec.storageClassName"
    done = apply(cluster, namespace, with_value(a_cluster(annotations=IDLE), path, "other"))
    assert done.returncode != 0
    assert "only spec.resources.requests.storage can change" in done.stderr


def test_statefulcluster_can_be_scaled(webhooks, cluster, namespace):
    assert apply(cluster, namespace, a_cluster(annotations=IDLE)).returncode == 0
    done = cluster.kubectl("scale", "-n", namespace, "stc/web", "--replicas=5")
    assert done.returncode == 0, done.stderr


API = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": f"{API}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{API}/validatingadmissionpolicybindings",
}
RBAC = "rbac.authorization.k8s.io"


def right(resource, *verbs, group=""):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


WRITE = right("statefulclusters", "create", "update", "patch", "get", group=STATEFULCLUSTERS.group)
SCALE = right("statefulclusters/scale", "update", "patch", "get", group=STATEFULCLUSTERS.group)
CREATE_PODS = right("pods", "create")
CREATE_CLAIMS = right("persistentvolumeclaims", "create")
DELETE_CLAIMS = right("persistentvolumeclaims", "delete")


@pytest.fixture(scope="module")
async def policed(client: Client, api):
    """The admission policies of the kind as they are installed."""
    await install(client)
    made = []
    for body in policies(USER_REQUIREMENTS):
        await api.create(PLURALS[body["kind"]], body)
        made.append(f"{PLURALS[body['kind']]}/{body['metadata']['name']}")
    yield
    for path in made:
        await api.delete(path)


async def grant(api, namespace, *rules):
    """Grant permissions in a namespace to a user."""
    base = f"/apis/{RBAC}/v1/namespaces/{namespace}"
    await api.create(f"{base}/roles", {"metadata": {"name": "eve"}, "rules": list(rules)})
    subjects = [{"kind": "User", "name": "eve", "apiGroup": RBAC}]
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "eve"}
    await api.create(
        f"{base}/rolebindings", {"metadata": {"name": "eve"}, "subjects": subjects, "roleRef": ref}
    )


def kubectl_as_eve(cluster, namespace, *arguments, body=None):
    text = json.dumps(body) if body is not None else None
    return cluster.kubectl(*arguments, "-n", namespace, "--as=eve", input=text)


DELETING = {"whenDeleted": "Retain", "whenScaled": "Delete"}
WITHOUT_CLAIMS = with_value(
    a_cluster(annotations=IDLE, volumeClaimTemplates=None), "spec.template.spec.containers.0.volumeMounts", []
)


@pytest.mark.parametrize(
    ("rules", "body", "want"),
    [
        pytest.param(
            [], WITHOUT_CLAIMS, "you need permission to create pods here", id="no permission for pods"
        ),
        pytest.param([CREATE_PODS], WITHOUT_CLAIMS, None, id="pods without claims"),
        pytest.param(
            [CREATE_PODS],
            a_cluster(annotations=IDLE),
            "permission to create persistentvolumeclaims",
            id="no permission for claims",
        ),
        pytest.param(
            [CREATE_PODS, CREATE_CLAIMS],
            a_cluster(annotations=IDLE),
            None,
            id="permission for pods and claims",
        ),
        pytest.param(
            [CREATE_PODS, CREATE_CLAIMS],
            a_cluster(annotations=IDLE, persistentVolumeClaimRetentionPolicy=DELETING),
            "permission to delete persistentvolumeclaims",
            id="deletes claims without permission",
        ),
        pytest.param(
            [CREATE_PODS, CREATE_CLAIMS, DELETE_CLAIMS],
            a_cluster(annotations=IDLE, persistentVolumeClaimRetentionPolicy=DELETING),
            None,
            id="deletes claims with permission",
        ),
    ],
)
async def test_user_needs_permissions_for_pods_and_claims(
    rules, body, want, policed, webhooks, cluster, api, namespace
):
    await grant(api, namespace, WRITE, *rules)

    async def assert_decision() -> None:
        done = kubectl_as_eve(cluster, namespace, "create", "--dry-run=server", "-f", "-", body=body)
        assert (done.returncode == 0) == (want is None), done.stderr
        assert want is None or want in done.stderr, done.stderr

    await eventually(assert_decision)  # a new role or policy takes effect with a delay


async def test_user_without_permission_to_create_pods_can_scale_and_label(
    policed, webhooks, cluster, api, namespace
):
    await grant(api, namespace, WRITE, SCALE)
    group = STATEFULCLUSTERS.group
    await wait_until_allowed(api, "eve", "patch", "statefulclusters/scale", group=group, namespace=namespace)
    assert apply(cluster, namespace, a_cluster(annotations=IDLE)).returncode == 0
    for arguments in (
        ("scale", "stc/web", "--replicas=5"),
        ("label", "stc/web", "team=a"),
        ("patch", "stc/web", "--type=merge", "-p", '{"spec":{"replicas":2}}'),
    ):
        done = kubectl_as_eve(cluster, namespace, *arguments)
        assert done.returncode == 0, (arguments, done.stderr)
    image = {"name": "nginx", "image": "evil"}
    patch = json.dumps(
        {"spec": {"template": {"spec": {"containers": [WEB["template"]["spec"]["containers"][0] | image]}}}}
    )

    async def assert_rejected() -> None:
        done = kubectl_as_eve(
            cluster, namespace, "patch", "stc/web", "--type=merge", "-p", patch, "--dry-run=server"
        )
        assert "you need permission to create pods here" in done.stderr, done.stderr

    await eventually(assert_rejected)
