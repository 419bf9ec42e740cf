"""The discovery API, request by request."""

import json

import pytest

from quintet.apis.eventingbackend import CATALOG, NATS
from quintet.apis.eventingbackend.discovery import MAX_BODY_BYTES, DiscoveryRequest, respond


def ask(method, path, **more):
    return respond(DiscoveryRequest(method=method, path=path, **more))


def body_of(reply):
    assert reply.headers["Content-Length"] == str(len(reply.body))
    return json.loads(reply.body)


def test_discovery_lists_the_types():
    reply = ask("GET", "/backend")
    assert (reply.status, reply.body) == (200, b'["nats","beb"]')
    assert reply.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("name", CATALOG)
def test_discovery_describes_the_keys_of_a_type(name):
    found = body_of(ask("GET", f"/backend/{name}"))
    assert found["type"] == name
    assert [entry["name"] for entry in found["config"]] == [key.name for key in CATALOG[name].keys]
    for entry in found["config"]:
        assert {"name", "description", "dataType", "defaultValue", "required"} <= entry.keys()


def test_key_has_the_published_fields():
    config = {entry["name"]: entry for entry in body_of(ask("GET", "/backend/nats"))["config"]}
    assert config["maxInFlightMessages"] == {
        "name": "maxInFlightMessages",
        "description": "How many events may be under way to one subscription at a time.",
        "dataType": "int",
        "defaultValue": 10,
        "required": False,
        "minimum": 1,
        "maximum": 10000,
    }
    assert config["streamStorageType"]["enum"] == ["file", "memory"]
    assert config["url"]["defaultValue"] is None
    assert (config["reconnectWait"]["minimum"], config["reconnectWait"]["maximum"]) == ("100ms", "5m")


def test_required_key_is_marked():
    config = {entry["name"]: entry for entry in body_of(ask("GET", "/backend/beb"))["config"]}
    assert (config["secretRef"]["required"], config["secretRef"]["defaultValue"]) == (True, None)


@pytest.mark.parametrize("path", ["/backend", "/backend/nats", "/backend/beb", "/backend/nats/schema"])
def test_unchanged_document_gives_not_modified(path):
    first = ask("GET", path)
    tag = first.headers["ETag"]
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = ask("GET", path, if_none_match=sent)
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    assert ask("GET", path, if_none_match='"other"').status == 200


@pytest.mark.parametrize(
    "path", ["/backend", "/backend/nats", "/backend/kafka", "/backend/nats/validate", "/x"]
)
def test_head_has_the_headers_of_get_without_body(path):
    head, get = ask("HEAD", path), ask("GET", path)
    assert head.body == b""
    assert (head.status, head.headers) == (get.status, get.headers)


@pytest.mark.parametrize(
    "path", ["/", "", "/backends", "/backend/nats/nothing", "/backend/nats/schema/x", "/x/backend"]
)
def test_unknown_path_gives_a_hint(path):
    reply = ask("GET", path)
    assert reply.status == 404
    assert body_of(reply)["error"].startswith("there is nothing here: try /backend")


def test_unknown_type_gives_the_known_types():
    reply = ask("GET", "/backend/kafka")
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/json")
    assert body_of(reply) == {"error": "backend type 'kafka' does not exist: there are nats, beb"}


def test_long_unknown_type_is_cut_in_the_response():
    assert len(ask("GET", "/backend/" + "k" * 100_000).body) < 1000


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        ("POST", "/backend", "GET, HEAD"),
        ("DELETE", "/backend/nats", "GET, HEAD"),
        ("PUT", "/backend/nats/schema", "GET, HEAD"),
        ("GET", "/backend/nats/validate", "POST"),
    ],
)
def test_wrong_method_gives_the_allowed_methods(method, path, want):
    reply = ask(method, path)
    assert (reply.status, reply.headers["Allow"]) == (405, want)
    assert "error" in body_of(reply)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"streamReplicas":9}]',
        b'{"config":[{"streamReplicas":9}]}',
        b'{"type":"nats","config":[{"streamReplicas":9}]}',
    ],
    ids=["a config", "a spec without type", "a spec"],
)
def test_what_if_reports_errors_and_defaults(body):
    reply = ask("POST", "/backend/nats/validate", body=body)
    assert reply.status == 200
    found = body_of(reply)
    assert (found["type"], found["valid"], found["warnings"]) == ("nats", False, [])
    assert found["validationErrors"] == [
        {
            "type": "invalid-value-error",
            "config": "streamReplicas",
            "value": "9",
            "error": "must be set between 1 and 5",
        }
    ]
    shown = {entry["name"]: entry for entry in found["effectiveConfig"]}
    assert shown["streamName"] == {"name": "streamName", "value": "sap", "origin": "default"}
    assert "streamReplicas" not in shown


def test_what_if_of_a_valid_config_has_no_errors():
    found = body_of(ask("POST", "/backend/nats/validate", body=b'[{"streamReplicas":3}]'))
    assert (found["valid"], found["validationErrors"]) == (True, [])
    assert {"name": "streamReplicas", "value": "3", "origin": "user"} in found["effectiveConfig"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b'"\xff"', "the body is not JSON"),
        (b"[" * 60_000, "the body is not JSON"),
        (b"7", "the body must be a config"),
        (b"{}", "the body must be a config"),
        (b'{"type":"beb","config":[]}', "type must be nats"),
    ],
    ids=["nothing", "half", "not UTF-8", "too deep", "a number", "an empty object", "a spec of another type"],
)
def test_what_if_refuses_a_malformed_config(body, want):
    reply = ask("POST", "/backend/nats/validate", body=body)
    assert reply.status == 400
    assert body_of(reply)["error"].startswith(want)


def test_oversized_body_is_not_read():
    assert ask("POST", "/backend/nats/validate", body=b" " * (MAX_BODY_BYTES + 1)).status == 413


def test_what_if_with_many_errors_gives_a_bounded_response():
    body = json.dumps([{f"k{number}": "v"} for number in range(3000)]).encode()
    assert len(body) <= MAX_BODY_BYTES
    reply = ask("POST", "/backend/nats/validate", body=body)
    assert reply.status == 200
    assert len(reply.body) < MAX_BODY_BYTES


def test_schema_contains_every_key():
    schema = body_of(ask("GET", "/backend/nats/schema"))
    assert list(schema["items"]["properties"]) == [key.name for key in NATS.keys]
