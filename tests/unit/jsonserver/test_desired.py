"""The children that a JsonServer gets."""

import pytest

from quintet.apis.jsonserver import (
    JsonServer,
    JsonServerSpec,
    JsonServerTemplate,
    JsonServerTemplateMetadata,
    Storage,
)
from quintet.apis.meta import ObjectMeta
from quintet.controllers.decide.overlay import overlay
from quintet.controllers.jsonserver.decide import desired

CONFIG = '{"people": [{"id": 1, "name": "Ä"}]}\n'


def a_server(**spec) -> JsonServer:
    metadata = ObjectMeta(name="app-x", namespace="ns", uid="u", generation=3)
    return JsonServer(metadata=metadata, spec=JsonServerSpec(json_config=CONFIG, **spec))


def container(server: JsonServer) -> dict:
    return desired.deployment(server, "default:1")["spec"]["template"]["spec"]["containers"][0]


def test_config_map_contains_the_data_byte_for_byte():
    assert desired.config_map(a_server())["data"] == {"db.json": CONFIG}


def test_all_children_have_the_same_name_and_labels():
    server = a_server()
    for child in (desired.config_map(server), desired.service(server), desired.deployment(server, "i")):
        assert child["metadata"]["name"] == "app-x"
        assert child["metadata"]["namespace"] == "ns"
        assert child["metadata"]["labels"] == {
            "app": "app-x",
            "app.kubernetes.io/name": "json-server",
            "app.kubernetes.io/instance": "app-x",
            "app.kubernetes.io/managed-by": "quintet",
            "app.kubernetes.io/part-of": "quintet",
        }


def test_service_maps_port_3000_to_port_3000():
    spec = desired.service(a_server())["spec"]
    assert spec["type"] == "ClusterIP"
    assert [(port["port"], port["targetPort"]) for port in spec["ports"]] == [(3000, 3000)]
    assert spec["selector"] == desired.deployment(a_server(), "i")["spec"]["selector"]["matchLabels"]


def test_container_serves_the_mounted_data():
    main = container(a_server())
    assert main["name"] == "json-server"
    assert main["args"] == ["/data/db.json", "--host", "0.0.0.0", "--port", "3000", "--read-only"]
    assert main["volumeMounts"] == [{"name": "json-config", "mountPath": "/data"}]
    assert main["image"] == "default:1"
    assert container(a_server(image="mine:2"))["image"] == "mine:2"


def test_pods_meet_the_restricted_profile():
    pod = desired.deployment(a_server(storage=Storage.EPHEMERAL), "i")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for each in (*pod["containers"], *pod["initContainers"]):
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["requests"]


def test_termination_grace_period_is_short():
    pod = desired.deployment(a_server(), "i")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 5


def test_only_new_data_changes_the_pod_template():
    def template(server: JsonServer) -> dict:
        return desired.deployment(server, "i")["spec"]["template"]

    assert template(a_server()) == template(a_server(replicas=5))
    metadata = ObjectMeta(name="app-x", namespace="ns")
    other = JsonServer(metadata=metadata, spec=JsonServerSpec(json_config="{}"))
    assert template(a_server()) != template(other)


def test_ephemeral_storage_serves_a_copy():
    pod = desired.deployment(a_server(storage=Storage.EPHEMERAL), "i")["spec"]["template"]["spec"]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    assert "--read-only" not in pod["containers"][0]["args"]
    assert pod["initContainers"][0]["command"] == ["cp", "/config/db.json", "/data/db.json"]
    assert [volume["name"] for volume in pod["volumes"]] == ["json-config", "data"]


def test_manifests_contain_no_empty_values():
    # The server drops them without a record, which would cost a needless apply.
    def empties(value, path=""):
        if value in ("", {}, [], None):
            yield path
        items = (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        )
        for name, item in items:
            yield from empties(item, f"{path}/{name}")

    for storage in Storage:
        server = a_server(storage=storage)
        for child in (desired.config_map(server), desired.service(server), desired.deployment(server, "i")):
            assert list(empties(child)) == []


def test_template_is_merged_into_the_pods():
    custom = JsonServerTemplate(
        JsonServerTemplateMetadata(labels={"team": "a"}, annotations={"note": "b"}),
        {
            "nodeSelector": {"disk": "ssd"},
            "containers": [
                {
                    "name": "json-server",
                    "env": [{"name": "A", "value": "1"}],
                    "resources": {"limits": {"cpu": "1"}},
                },
                {"name": "sidecar", "image": "side:1"},
            ],
        },
    )
    template = desired.deployment(a_server(template=custom), "i")["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"]["app"] == "app-x"
    assert template["metadata"]["annotations"]["note"] == "b"
    main, sidecar = template["spec"]["containers"]
    assert main["env"] == [{"name": "A", "value": "1"}]
    assert main["resources"] == {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1"}}
    assert main["args"][0] == "/data/db.json"
    assert sidecar == {"name": "sidecar", "image": "side:1"}
    assert template["spec"]["nodeSelector"] == {"disk": "ssd"}


@pytest.mark.parametrize(
    ("base", "patch", "want"),
    [
        pytest.param({"a": 1}, {"b": 2}, {"a": 1, "b": 2}, id="adds"),
        pytest.param({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}, id="goes into objects"),
        pytest.param({"a": 1, "b": 2}, {"a": None}, {"b": 2}, id="null removes"),
        pytest.param({"args": [1, 2]}, {"args": [3]}, {"args": [3]}, id="other lists are replaced"),
        pytest.param(
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}, {"name": "C", "value": "4"}]},
            id="named items merge by name and keep their order",
        ),
    ],
)
def test_overlay_merges_as_strategic_merge(base, patch, want):
    before = repr(base)
    assert overlay(base, patch) == want
    assert repr(base) == before, "the base was changed"
