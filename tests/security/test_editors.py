"""A user with the editor role of one kind, and no other permission, tries to set every field of its spec.

Whatever runs an image, names a Secret or deletes data must need a further permission. A field that needs none is listed
in `HARMLESS` with the reason, so that a new field is either protected or reviewed.
"""

from typing import Any

import pytest

from kit.campaign.schema_cases import allowed_values, place, properties
from kit.cluster.api import Api, JsonObject
from kit.eventually import eventually
from quintet import kinds
from quintet.kinds import PROBE_NAME, Kind, load
from quintet.manifests.crd import custom_resource_definition
from security.attempts import attempt, base_object, bind_editor

KINDS = [kind for kind in kinds.all_kinds() if kind.component]
NEEDED = "you need permission"
HARMLESS = {
    "JsonServer": {
        "jsonConfig": "data that the pods serve",
        "replicas": "as with scaling a Deployment; quota limits it",
        "storage": "an emptyDir with a size limit",
        "readOnly": "whether clients may write into the pod",
        "idField": "a name of a field of the data, in one argument",
        "cors": "as writing the data: all of it is the editor's",
        "routes": "paths of this server only, of a restricted syntax",
        "delay": "when the pod answers",
        "faults": "what the pod answers",
        "bodyLimit": "lowers the limit of the server",
    },
    "Checkup": {
        "timeoutSeconds": "how long it may run",
        "ttlSecondsAfterFinished": "needs permission to delete checkups, which an editor of them has",
        "successfulRunsHistoryLimit": "how many runs the status keeps, at most 100",
        "failedRunsHistoryLimit": "how many runs the status keeps, at most 100",
    },
    "CASConfig": {},
    "StatefulCluster": {
        "replicas": "as with scaling a StatefulSet; quota limits it",
        "updateStrategy": "the order in which pods are replaced",
        "revisionHistoryLimit": "how many revisions are kept",
        "minReadySeconds": "when a pod counts as available",
        "ordinals": "has no effect: there are no ordinals",
    },
    "EventingBackend": {
        "type": "another type needs a Secret, which needs permission",
        "config": "options of the server; those that name a Secret need permission",
    },
    "Subscription": {
        "sink": "a Service of the same namespace",
        "source": "which events are delivered",
        "types": "which events are delivered",
        "typeMatching": "which events are delivered",
        "backend": "an EventingBackend of the same namespace",
        "config": "how many events are delivered at once",
        "filters": "which events are delivered; bounded by the webhook and the dispatcher",
        "paused": "whether events are delivered",
        "delivery": "when and how often a delivery is tried again; bounded by the schema",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_editor_of_one_kind_sets_only_harmless_fields(kind: Kind, installed, api: Api, namespace: str):
    user = await bind_editor(api, namespace, kind)
    declaration = load(kind.declaration)
    path = declaration.resource.path(namespace)
    body = base_object(kind, namespace)
    stored = await api.create(path, body)
    schema: JsonObject = custom_resource_definition(declaration)["spec"]["versions"][-1]["schema"][
        "openAPIV3Schema"
    ]
    await _wait_for_policies(api, kind, namespace, user)
    admitted: dict[str, Any] = {}
    for each in properties(schema):
        name = each.steps[1]
        for value in allowed_values(each.schema)[:2]:
            changed = place(schema, {**body, "spec": _without(body["spec"], name)}, each.steps, value)
            changed["metadata"] = stored["metadata"]
            done = await attempt(api, user, "PUT", f"{path}/{PROBE_NAME}", changed)
            if done.code < 300 and done.spec != stored["spec"]:
                admitted.setdefault(name, value)
    assert set(admitted) == set(HARMLESS[kind.name]), (
        f"the editor alone may set these: protect them with a UserRequirement, or review them: {admitted}"
    )


def _without(spec: JsonObject, name: str) -> JsonObject:
    return {key: value for key, value in spec.items() if key != name}


async def _wait_for_policies(api: Api, kind: Kind, namespace: str, user: str) -> None:
    """Wait until the policies of the kind hold: they take effect with a delay."""
    requirements = getattr(load(kind.rbac), "USER_REQUIREMENTS", ())
    protected = next((each for each in requirements if not each.when and not each.expression), None)
    if protected is None:
        return
    path = load(kind.declaration).resource.path(namespace)

    async def refused() -> None:
        body = {**base_object(kind, namespace), "metadata": {"name": f"{PROBE_NAME}-asked"}}
        field = protected.fields[0]
        if field not in body["spec"]:
            body["spec"][field] = {"image": "x:1", "template": {}}.get(field)
        code, said, _ = await attempt(api, user, "POST", path, body)
        assert code in (403, 422), (code, said)
        assert NEEDED in said, said

    await eventually(refused, within=60)


TEMPLATES = {
    "image of the choice": {"containers": [{"name": "x", "image": "evil:1"}]},
    "another ServiceAccount": {"serviceAccountName": "admin"},
    "network of the node": {"hostNetwork": True},
    "processes of the node": {"hostPID": True},
    "files of the node": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
    "a Secret as files": {"volumes": [{"name": "x", "secret": {"secretName": "s"}}]},
    "a token": {
        "volumes": [{"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
    },
    "a Secret as variables": {
        "containers": [{"name": "x", "image": "a:1", "envFrom": [{"secretRef": {"name": "s"}}]}]
    },
    "privileges": {"containers": [{"name": "x", "image": "a:1", "securityContext": {"privileged": True}}]},
    "a node of the choice": {"nodeName": "control-plane"},
    "credentials of a registry": {"imagePullSecrets": [{"name": "s"}]},
    "a command": {"containers": [{"name": "x", "image": "a:1", "command": ["sh"]}]},
}
WITH_TEMPLATES = [kind for kind in KINDS if kind.name in ("JsonServer", "Checkup", "StatefulCluster")]


@pytest.mark.parametrize("verb", ["POST", "PUT"])
@pytest.mark.parametrize("kind", WITH_TEMPLATES, ids=lambda kind: kind.name)
async def test_editor_without_pod_permission_sets_no_pod_template(
    kind: Kind, verb: str, installed, api: Api, namespace: str
):
    user = await bind_editor(api, namespace, kind)
    path = load(kind.declaration).resource.path(namespace)
    body = base_object(kind, namespace)
    metadata = (await api.create(path, body))["metadata"]
    await _wait_for_policies(api, kind, namespace, user)
    succeeded = []
    for attack, spec in TEMPLATES.items():
        pod = {"containers": [{"name": "x", "image": "a:1"}], **spec}
        template = {**body["spec"].get("template", {}), "spec": pod}
        changed = {**body, "metadata": metadata, "spec": {**body["spec"], "template": template}}
        where = f"{path}/{PROBE_NAME}"
        if verb == "POST":
            where, changed["metadata"] = path, {"name": f"{PROBE_NAME}-attack"}
        code, said, _ = await attempt(api, user, verb, where, changed)
        if code < 300 or NEEDED not in said:
            succeeded.append(f"{attack}: {code} {said}")
    assert succeeded == []
