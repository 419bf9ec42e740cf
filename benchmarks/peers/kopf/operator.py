"""The contender built with Kopf: the same children and the same status, by the means that Kopf offers.

Runs in an environment of its own (benchmarks/requirements.txt). Low-level event handlers, because the
high-level ones add an annotation patch per object; no events posted; no worker limit; children through
aiohttp over 16 connections; children watched and indexed, so that nothing is sent when all is there.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"

import asyncio
import base64
import hashlib
import json
import logging
import os
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml

SELECTOR = "app.kubernetes.io/name=json-server,app.kubernetes.io/managed-by=quintet"
CHILDREN = {"configmaps": "/api/v1", "services": "/api/v1", "deployments": "/apis/apps/v1"}
PORT = 3000
# What the product makes, for an object of these names: read here, so that a change there is a change here.
PLACE = json.loads(os.environ["BENCH_TEMPLATE"])["place"]
TEMPLATE = {part: json.dumps(json.loads(os.environ["BENCH_TEMPLATE"])[part]) for part in ("pod", "status")}
Body = dict[str, Any]


class Server:
    """Where the API server is, and the connections to it."""

    url: str
    session: aiohttp.ClientSession


def _pem(section: Body, key: str, beside: Path) -> bytes | None:
    if data := section.get(f"{key}-data"):
        return base64.b64decode(data)
    return (beside / section[key]).read_bytes() if key in section else None


def connect() -> None:
    """Open the connections that the kubeconfig describes."""
    path = Path(os.environ["KUBECONFIG"])
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = _pem(cluster, "certificate-authority", path.parent)
    tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = (_pem(user, name, path.parent) for name in ("client-certificate", "client-key"))
    if certificate and key:
        with tempfile.NamedTemporaryFile() as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            tls.load_cert_chain(both.name)
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    connector = aiohttp.TCPConnector(limit=16, ssl=tls)
    Server.url = cluster["server"].rstrip("/")
    Server.session = aiohttp.ClientSession(connector=connector, headers=headers)


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Kopf at its best: nothing that costs requests or time for no use here."""
    logging.getLogger("kopf").setLevel(logging.WARNING)
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.initial_streaming = True
    for plural in CHILDREN:
        settings.watching.label_selectors[plural] = SELECTOR
    connect()


@kopf.on.cleanup()
async def end(**_: Any) -> None:
    """Close the connections."""
    await Server.session.close()


@kopf.index("configmaps")
@kopf.index("services")
@kopf.index("deployments")
def known(
    namespace: str, name: str, resource: kopf.Resource, uid: str, **_: Any
) -> dict[tuple[str, str, str], str]:
    """Which children there are."""
    return {(resource.plural, namespace, name): uid}


@kopf.on.event("configmaps")
@kopf.on.event("services")
@kopf.on.event("deployments")
async def child_changed(event: Body, body: Body, resource: kopf.Resource, namespace: str, **_: Any) -> None:
    """Make a deleted child again."""
    if event["type"] != "DELETED":
        return
    for owner in body["metadata"].get("ownerReferences", ()):
        path = f"/apis/example.com/v1/namespaces/{namespace}/jsonservers/{owner['name']}"
        async with Server.session.get(Server.url + path) as answer:
            server = await answer.json()
        if answer.status == 200 and "deletionTimestamp" not in server["metadata"]:
            await create(resource.plural, namespace, children(server)[resource.plural])


@kopf.on.event("example.com", "v1", "jsonservers")
async def changed(event: Body, body: Body, patch: kopf.Patch, known: kopf.Index, **_: Any) -> None:
    """Make the children that are missing, then say so in the status."""
    meta, status = body["metadata"], body.get("status", {})
    if event["type"] == "DELETED" or "deletionTimestamp" in meta:
        return
    namespace, name = meta["namespace"], meta["name"]
    missing = [plural for plural in CHILDREN if (plural, namespace, name) not in known]
    current = status.get("state") == "Synced" and status.get("observedGeneration") == meta["generation"]
    if current:
        return  # a missing child is reported by its own watch
    wanted = children(body)
    if "configmaps" in missing:
        await create("configmaps", namespace, wanted["configmaps"])
        missing.remove("configmaps")
    await asyncio.gather(*(create(plural, namespace, wanted[plural]) for plural in missing))
    patch.status.update(status_of(meta))


async def create(plural: str, namespace: str, body: Body) -> None:
    """POST a child; one that is there already is as good."""
    url = f"{Server.url}{CHILDREN[plural]}/namespaces/{namespace}/{plural}?fieldManager=quintet-jsonserver"
    async with Server.session.post(url, json=body) as answer:
        if answer.status not in (201, 409):
            raise kopf.TemporaryError(f"{answer.status} {await answer.text()}", delay=1)
        await answer.read()


def labels(name: str) -> dict[str, str]:
    """As `desired` sets them."""
    return {
        "app": name,
        "app.kubernetes.io/name": "json-server",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": "quintet",
        "app.kubernetes.io/part-of": "quintet",
    }


def config_hash(config: str) -> str:
    """Names a piece of data."""
    return hashlib.blake2b(config.encode(), digest_size=8).hexdigest()


def children(server: Body) -> dict[str, Body]:
    """As `desired` makes them."""
    meta, spec = server["metadata"], server["spec"]
    name = meta["name"]
    owner = {
        "apiVersion": "example.com/v1", "kind": "JsonServer", "name": name, "uid": meta["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    mark = {"quintet.dev/applied": f"{meta['uid']}/{meta['generation']}"}
    common = {"name": name, "labels": labels(name), "annotations": mark, "ownerReferences": [owner]}
    port = {"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}
    template = {
        "metadata": {
            "labels": labels(name),
            "annotations": {"example.com/config-hash": config_hash(spec["jsonConfig"])},
        },
        "spec": renamed("pod", meta),
    }
    return {
        "configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": common,
                       "data": {"db.json": spec["jsonConfig"]}},
        "services": {"apiVersion": "v1", "kind": "Service", "metadata": common,
                     "spec": {"type": "ClusterIP", "selector": {"app": name}, "ports": [port]}},
        "deployments": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": common,
                        "spec": {"replicas": spec["replicas"], "selector": {"matchLabels": {"app": name}},
                                 "template": template}},
    }  # fmt: skip


def status_of(meta: Body) -> Body:
    """As Quintet writes it while no pod runs."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251
    status = renamed("status", meta)
    for condition in status["conditions"]:
        condition |= {"lastTransitionTime": now, "observedGeneration": meta["generation"]}
    return {**status, "observedGeneration": meta["generation"]}


def renamed(part: str, meta: Body) -> Body:
    """A part of what the product makes, with the names of this object."""
    text = TEMPLATE[part].replace(PLACE["name"], meta["name"]).replace(PLACE["namespace"], meta["namespace"])
    found: Body = json.loads(text)
    return found
