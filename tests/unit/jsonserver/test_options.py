"""Options of json-server: what is refused, and what the pods get."""

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from quintet.apis.jsonserver import JsonServer, JsonServerSpec, validate
from quintet.apis.jsonserver.types import Delay, Fault, Route, ServiceOptions, ServiceType
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.options import flags, middleware
from quintet.controllers.jsonserver.decide.status import ServiceState
from unit.jsonserver.test_desired import a_server

ROOT = Path(__file__).parents[3]


def errors(**spec) -> list[str]:
    found = validate({"metadata": {"name": "app-x"}, "spec": {"jsonConfig": "{}", **spec}})
    return [str(error) for error in found.errors]


def routed(path: str, target: str) -> dict:
    return {"routes": [{"path": path, "target": target}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"readOnly": False}, "spec.readOnly: Forbidden: spec.storage is ReadOnly"),
        ({"bodyLimit": "10.1Mi"}, 'spec.bodyLimit: Invalid value: "10.1Mi": must be a size from 1 to 10Mi'),
        ({"bodyLimit": 0}, "spec.bodyLimit: Invalid value: 0"),
        ({"bodyLimit": "1.5"}, 'spec.bodyLimit: Invalid value: "1.5"'),
        ({"bodyLimit": "much"}, 'spec.bodyLimit: Invalid value: "much"'),
        (
            {"delay": {"milliseconds": 5, "maxMilliseconds": 4}},
            "spec.delay.maxMilliseconds: Invalid value: 4: must be at least spec.delay.milliseconds, which is 5",
        ),
        (
            {"faults": [{"status": 500, "percent": 60}, {"status": 503, "percent": 41}]},
            "spec.faults: Invalid value: 101: the percentages must add up to at most 100",
        ),
        (routed("api/*", "/$1"), "spec.routes[0].path: Invalid value"),
        (routed("/a(b", "/"), "spec.routes[0].path: Invalid value"),
        (routed("/:id*", "/"), "spec.routes[0].path: Invalid value"),
        (routed("/a?", "/"), "spec.routes[0].path: Invalid value"),
        (routed("/a\\", "/"), "spec.routes[0].path: Invalid value"),
        (routed("/a", "b"), "spec.routes[0].target: Invalid value"),
        (routed("/a", "/$1"), "'$1' stands for no part of the path '/a'"),
        (routed("/:a/*", "/$3"), "'$3' stands for no part"),
        (routed("/:name", "/:names"), "':names' stands for no part"),
        ({"service": {"nodePort": 30080}}, "spec.service.nodePort: Forbidden: a Service of type ClusterIP"),
        (
            {"service": {"annotations": {"quintet.dev/applied": "x"}}},
            "spec.service.annotations[quintet.dev/applied]: Forbidden: annotations of quintet.dev are reserved",
        ),
        ({"service": {"annotations": {"a b": "x"}}}, "spec.service.annotations[a b]: Invalid value"),
        (
            {"routes": [{"path": "/a", "target": "/b"}, {"path": "/a", "target": "/c"}]},
            'spec.routes[1].path: Duplicate value: "/a"',
        ),
    ],
)
def test_option_that_json_server_cannot_apply_is_refused(spec, want):
    (found,) = errors(**spec)
    assert want in found


@pytest.mark.parametrize(
    "spec",
    [
        {"readOnly": True},
        {"readOnly": False, "storage": "Ephemeral"},
        {"bodyLimit": "10Mi"},
        {"bodyLimit": 1},
        {"delay": {"milliseconds": 5, "maxMilliseconds": 5}},
        {"faults": [{"status": 500, "percent": 100}]},
        {"service": {"type": "NodePort", "nodePort": 30080, "annotations": {"a.b/c": ""}}},
        routed("/api/*", "/$1"),
        routed("/article\\?id=:id&x=*", "/posts/:id?y=$2&z=$0"),
        routed("/:a-:b.json", "/x/:b/:a"),
    ],
)
def test_option_that_json_server_can_apply_is_admitted(spec):
    assert errors(**spec) == []


def test_missing_id_is_judged_by_the_id_field():
    data = '{"posts": [{"_id": 1}, {"_id": 1}]}'
    body = {"metadata": {"name": "app-x"}, "spec": {"jsonConfig": data, "idField": "_id"}}
    assert validate(body).warnings == ("spec.jsonConfig: posts[1]._id: 1 is also the _id of posts[0]",)


def pod(**spec) -> dict:
    return desired.deployment(a_server(**spec), "i")["spec"]["template"]


def test_pods_without_options_are_as_before():
    plain = pod()
    assert list(plain["metadata"]["annotations"]) == [desired.CONFIG_HASH]
    assert [volume["name"] for volume in plain["spec"]["volumes"]] == ["json-config"]
    assert pod(cors=True, id_field="id", read_only=True) == plain


def test_files_reach_the_pods_by_their_own_annotations():
    template = pod(routes=(Route("/b/*", "/$1"), Route("/a", "/b")), delay=Delay(5))
    container, (_, volume) = template["spec"]["containers"][0], template["spec"]["volumes"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for item in volume["downwardAPI"]["items"]:
        key = item["fieldRef"]["fieldPath"].removeprefix("metadata.annotations['").removesuffix("']")
        assert template["metadata"]["annotations"][key]
        assert f"{mounts[volume['name']]}/{item['path']}" in container["args"]
    routes = json.loads(template["metadata"]["annotations"]["example.com/routes.json"])
    assert list(routes.items()) == [("/b/*", "/$1"), ("/a", "/b")], "in this order"


def test_flags_are_those_of_the_options():
    spec = {"jsonConfig": "{}", "storage": "Ephemeral", "readOnly": True, "idField": "_id", "cors": False}
    found = msgspec.convert({"metadata": {"name": "app-x"}, "spec": spec}, JsonServer).spec
    assert flags(found) == ["--read-only", "--id", "_id", "--nc"]


def test_user_cannot_replace_the_middleware_by_an_annotation():
    options = {"example.com/middleware.js": "process.exit()"}
    server = a_server(delay=Delay(5))
    server = msgspec.convert(
        {**msgspec.to_builtins(server), "spec": {**msgspec.to_builtins(server.spec),
         "template": {"metadata": {"annotations": options}}}}, JsonServer)  # fmt: skip
    annotations = desired.deployment(server, "i")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["example.com/middleware.js"] == middleware(server.spec)


def test_options_of_the_middleware_are_complete():
    spec = JsonServerSpec("{}", delay=Delay(5, 9), faults=(Fault(503, 5),), body_limit="1Ki")
    options = json.loads(middleware(spec).splitlines()[1].removeprefix("const options = "))
    assert (options["delay"], options["faults"]) == ([5, 9], [{"status": 503, "percent": 5}])
    assert options["bodyLimit"] == 1024


def test_service_is_of_the_type_of_the_spec():
    options = ServiceOptions(ServiceType.NODE_PORT, {"a": "b"}, 30080)
    service = desired.service(a_server(service=options))
    assert service["metadata"]["annotations"] == {"a": "b"}
    assert (service["spec"]["type"], service["spec"]["ports"][0]["nodePort"]) == ("NodePort", 30080)


def test_documented_ingress_and_httproute_lead_to_the_service():
    text = (ROOT / "docs/jsonserver.md").read_text()
    shown = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    by_kind = {each["kind"]: each for each in shown if each["kind"] != "JsonServer"}
    first = next(each for each in shown if each["kind"] == "JsonServer")
    service = desired.service(msgspec.convert(first, JsonServer))
    (port,) = service["spec"]["ports"]
    path = by_kind["Ingress"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert path == {"name": service["metadata"]["name"], "port": {"number": port["port"]}}
    target = by_kind["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][0]
    assert target == {"name": service["metadata"]["name"], "port": port["port"]}


@pytest.mark.parametrize(
    ("address", "url"), [("", ""), ("10.0.0.1", "http://10.0.0.1:3000"), ("fd00::1", "http://[fd00::1]:3000")]
)
def test_external_url_has_the_address_of_the_load_balancer(address, url):
    assert ServiceState(address=address).url == url
