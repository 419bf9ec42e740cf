"""Options of json-server: what is refused, and what the pods get."""

import json

import msgspec
import pytest

from quintet.apis.jsonserver import JsonServer, JsonServerSpec, validate
from quintet.apis.jsonserver.types import Delay, Fault, Route
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.options import flags, middleware
from unit.jsonserver.test_desired import a_server


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
