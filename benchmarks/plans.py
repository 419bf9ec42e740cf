"""Prepared requests for the replaying contenders: the cheapest ones, and recorded ones of Quintet.

A plan has one unit per custom resource: the requests that create its children and write its status.
`replay` (peers/go) sends the units over keep-alive connections.
"""

import datetime
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from quintet.apis.jsonserver import JSONSERVERS, JsonServer, JsonServerSpec
from quintet.apis.meta import JsonObject, ObjectMeta, Resource
from quintet.controllers.jsonserver.decide import desired
from quintet.controllers.jsonserver.decide.status import DeploymentState, status_of
from quintet.kube.client import MERGE
from quintet.runtime import conditions

IMAGE = "quintet.local/json-server:0.17.4"
MANAGER = "fieldManager=quintet-jsonserver"


class Planned(NamedTuple):
    """One request of a unit."""

    method: str
    path: str
    content_type: str
    body: Any

    def as_json(self) -> JsonObject:
        """Return the request in the format of `replay`."""
        return {
            "method": self.method,
            "path": self.path,
            "contentType": self.content_type,
            "body": self.body,
        }


Unit = Sequence[Planned]


def cheapest(server: JsonServer) -> Unit:
    """Return three POSTs of children and one PATCH of the status: the minimum of a correct operator."""
    children = (
        (desired.CONFIG_MAPS, desired.config_map(server)),
        (desired.SERVICES, desired.service(server)),
        (desired.DEPLOYMENTS, desired.deployment(server, IMAGE)),
    )
    posts = [_post(resource, server, body) for resource, body in children]
    return [*posts, _status_patch(server)]


def rename_requests(unit: Unit, recorded: JsonServer, server: JsonServer) -> Unit:
    """Return the recorded requests of one custom resource, changed for another."""
    pairs = [
        (str(getattr(recorded.metadata, field)), str(getattr(server.metadata, field)))
        for field in ("uid", "namespace", "name")
    ]

    def replace_ids(text: str) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return [
        Planned(
            each.method,
            replace_ids(each.path),
            each.content_type,
            json.loads(replace_ids(json.dumps(each.body))),
        )
        for each in unit
    ]


def template(config: str) -> str:
    """Return pod template and status of Quintet as JSON, for operators in other frameworks."""
    meta = ObjectMeta(name="app-name-of-the-object", namespace="namespace-of-the-object", generation=1)
    server = JsonServer(metadata=meta, spec=JsonServerSpec(json_config=config))
    pod = desired.deployment(server, IMAGE)["spec"]["template"]["spec"]
    return json.dumps(
        {"place": meta.key._asdict(), "pod": pod, "status": _status_patch(server).body["status"]}
    )


def write(path: Path, units: Iterable[Unit]) -> Path:
    """Write units to a file for `replay`; return its path."""
    lines = (json.dumps([each.as_json() for each in unit], separators=(",", ":")) for unit in units)
    path.write_text("\n".join(lines) + "\n")
    return path


def _post(resource: Resource, server: JsonServer, body: JsonObject) -> Planned:
    reference = {
        "apiVersion": JSONSERVERS.api_version,
        "kind": JSONSERVERS.kind,
        "name": server.metadata.name,
        "uid": server.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}
    return Planned("POST", f"{resource.path(server.metadata.namespace)}?{MANAGER}", "application/json", body)


def _status_patch(server: JsonServer) -> Planned:
    desired_status = status_of(server, None, DeploymentState(), None, [])
    now = datetime.datetime.fromtimestamp(0, datetime.UTC)
    merged = conditions.merge((), desired_status.conditions, server.metadata.generation, now)
    status = msgspec.to_builtins(msgspec.structs.replace(desired_status, conditions=merged))
    path = JSONSERVERS.path(server.metadata.namespace, server.metadata.name, "status")
    return Planned("PATCH", f"{path}?{MANAGER}", MERGE, {"status": status})


METHODS = {"create": "POST", "patch": "PATCH", "apply": "PATCH", "update": "PUT"}
CONTENT_TYPES = {"patch": MERGE, "apply": "application/apply-patch+yaml"}


def to_planned(verb: str, path: str, query: dict[str, str], body: Any) -> Planned:
    """A request that the recording proxy saw."""
    return Planned(
        METHODS[verb], f"{path}?{urlencode(query)}", CONTENT_TYPES.get(verb, "application/json"), body
    )
