"""The discovery API: backend types, their options, and validation of a config.

Pure: request in, response out. The HTTP server in front of it does the I/O and limits rates.

    GET  /backend                     the types
    GET  /backend/{type}              its options
    GET  /backend/{type}/schema       a JSON Schema of its config
    POST /backend/{type}/validate     errors, warnings, and the config with all defaults
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from quintet.apis.decoding import DECODE_ERRORS
from quintet.apis.eventingbackend.catalog import CATALOG, Catalog
from quintet.apis.eventingbackend.effective import effective
from quintet.apis.eventingbackend.entries import entries
from quintet.apis.eventingbackend.jsonschema import config_schema
from quintet.apis.eventingbackend.keys import BackendType, Key
from quintet.apis.eventingbackend.validation import config_faults, deprecation_warnings, good_values
from quintet.apis.eventingbackend.values import text_of
from quintet.apis.meta import JsonObject

MAX_BODY_BYTES: Final = 64 * 1024
_READ: Final = ("GET", "HEAD")
_ASK: Final = ("POST",)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRequest:
    """The parts of a request that matter here."""

    method: str
    path: str
    """Without the query."""
    if_none_match: str = ""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class DiscoveryResponse:
    """A response. For HEAD, `body` is empty and the headers are those of GET."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def respond(asked: DiscoveryRequest, catalog: Catalog = CATALOG) -> DiscoveryResponse:
    """Return the response to a request."""
    reply = _route(asked, catalog)
    return replace(reply, body=b"") if asked.method == "HEAD" else reply


def _route(asked: DiscoveryRequest, catalog: Catalog) -> DiscoveryResponse:
    parts = asked.path.strip("/").split("/")
    if parts[0] != "backend" or len(parts) > 3:
        return _problem(404, "there is nothing here: try /backend")
    if len(parts) == 1:
        return _document(asked, backend_types(catalog))
    backend = catalog.get(parts[1])
    if backend is None:
        known = ", ".join(catalog)
        return _problem(404, f"backend type '{text_of(parts[1])}' does not exist: there are {known}")
    match parts[2:]:
        case []:
            return _document(asked, description(backend))
        case ["schema"]:
            return _document(asked, config_schema(backend), "application/schema+json")
        case ["validate"]:
            return _validate_config(asked, backend, catalog)
    return _problem(404, f"there is nothing here: try /backend/{backend.name}")


def backend_types(catalog: Catalog = CATALOG) -> list[str]:
    """Return the body of `GET /backend`."""
    return list(catalog)


def description(backend: BackendType) -> JsonObject:
    """Return the body of `GET /backend/{type}`."""
    return {"type": backend.name, "config": [describe_option(key) for key in backend.keys]}


def what_if(backend: BackendType, config: Any, catalog: Catalog = CATALOG) -> JsonObject:
    """Return the body of `POST /backend/{type}/validate`: what the status would report about a config.

    The effective config omits options with errors, because their intended values are unknown.
    """
    faults = config_faults(backend, config, catalog)
    wrong = {fault.config for fault in faults}
    complete = effective(backend, good_values(entries(config).pairs, faults))
    return {
        "type": backend.name,
        "valid": not faults,
        "validationErrors": msgspec.to_builtins(faults),
        "warnings": list(deprecation_warnings(backend, config)),
        "effectiveConfig": [
            msgspec.to_builtins(entry) for entry in complete.entries() if entry.name not in wrong
        ],
    }


def describe_option(key: Key) -> JsonObject:
    """Return one option: the published fields always, the others only if set."""
    further: JsonObject = {
        "minimum": key.minimum,
        "maximum": key.maximum,
        "enum": list(key.allowed) or None,
        "maxLength": key.longest,
        "pattern": key.pattern.expression if key.pattern else None,
        "sensitive": key.sensitive or None,
        "deprecated": key.deprecated or None,
    }
    return {
        "name": key.name,
        "description": key.description,
        "dataType": key.data_type.value,
        "defaultValue": key.derived or key.default,
        "required": key.required,
        **{name: value for name, value in further.items() if value is not None},
    }


def _document(
    asked: DiscoveryRequest, content: Any, media_type: str = "application/json"
) -> DiscoveryResponse:
    if asked.method not in _READ:
        return _not_allowed(_READ)
    body = msgspec.json.encode(content)
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if _matches(asked.if_none_match, etag):
        return DiscoveryResponse(304, b"", headers)
    headers |= {"Content-Type": media_type, "Content-Length": str(len(body))}
    return DiscoveryResponse(200, body, headers)


def _validate_config(asked: DiscoveryRequest, backend: BackendType, catalog: Catalog) -> DiscoveryResponse:
    if asked.method not in _ASK:
        return _not_allowed(_ASK)
    if len(asked.body) > MAX_BODY_BYTES:
        return _problem(413, f"a config has at most {MAX_BODY_BYTES} bytes")
    try:
        given = msgspec.json.decode(asked.body)
    except (*DECODE_ERRORS, ValueError) as error:
        return _problem(400, f"the body is not JSON: {text_of(str(error))}")
    if isinstance(given, dict) and "config" in given:
        if given.get("type", backend.name) != backend.name:
            return _problem(400, f"type must be {backend.name}, as in the path, or be left out")
        given = given["config"]
    elif not isinstance(given, list):
        return _problem(400, 'the body must be a config, such as [{"maxInFlightMessages": 10}], or a spec')
    return _json(200, what_if(backend, given, catalog), {"Cache-Control": "no-store"})


def _matches(if_none_match: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags


def _not_allowed(methods: tuple[str, ...]) -> DiscoveryResponse:
    allowed = ", ".join(methods)
    return _json(405, {"error": f"use {' or '.join(methods)}"}, {"Allow": allowed})


def _problem(status: int, text: str) -> DiscoveryResponse:
    return _json(status, {"error": text}, {})


def _json(status: int, content: Any, headers: Mapping[str, str]) -> DiscoveryResponse:
    body = msgspec.json.encode(content)
    return DiscoveryResponse(
        status, body, {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    )
