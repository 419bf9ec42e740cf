"""Complete manifests of a JsonServer's children. The same spec gives the same bytes."""

import hashlib
from typing import Final

from quintet.apis.casconfig.embedding import Child, apply_embedded
from quintet.apis.jsonserver import JsonServer, Storage
from quintet.apis.jsonserver.types import PORT
from quintet.apis.jsonserver.validation import (
    CONFIG_VOLUME,
    CONTAINER,
    DATA_PATH,
    DATA_VOLUME,
    OPTIONS_PATH,
    SELECTOR_LABEL,
)
from quintet.apis.meta import JsonObject, Resource
from quintet.controllers.decide.overlay import overlay
from quintet.controllers.jsonserver.decide import options

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
SERVICES = Resource("", "v1", "Service", "services")
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments")

CONFIG_KEY: Final = "db.json"
CONFIG_HASH: Final = "example.com/config-hash"
"""Pod annotation that restarts the pods on new data: json-server does not notice a changed mount."""

SELECTOR: Final = "app.kubernetes.io/name=json-server,app.kubernetes.io/managed-by=quintet"
"""Label selector of all children."""

POD_TEMPLATE: Final = ("spec", "template", "spec")
"""Path of the pod spec in a Deployment."""

_SOURCE_PATH = "/config"
_USER = 65532
# json-server ignores SIGTERM and serves until it is killed, while its endpoint is being removed.
_GRACE_SECONDS = 5


def config_hash(config: str) -> str:
    """Return the hash of the data."""
    return hashlib.blake2b(config.encode(), digest_size=8).hexdigest()


def selector_labels(name: str) -> dict[str, str]:
    """Return the labels that select the pods of a JsonServer."""
    return {SELECTOR_LABEL: name}


def address(server: JsonServer) -> str:
    """Return the URL of the data inside the cluster."""
    return f"http://{server.metadata.name}.{server.metadata.namespace}.svc:{PORT}"


def config_map(server: JsonServer) -> JsonObject:
    """Return the ConfigMap with the data, byte for byte."""
    body: JsonObject = {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": _metadata(server),
        "data": {CONFIG_KEY: server.spec.json_config},
    }
    return apply_embedded(server.spec.cas_config, Child(CONFIG_MAPS, body))


def service(server: JsonServer) -> JsonObject:
    """Return the Service."""
    given = server.spec.service
    port: JsonObject = {"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}
    if given.node_port is not None:
        port["nodePort"] = given.node_port
    metadata = _metadata(server)
    if given.annotations:
        metadata["annotations"] = dict(given.annotations)
    body: JsonObject = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "metadata": metadata,
        "spec": {
            "type": given.type.value,
            "selector": selector_labels(server.metadata.name),
            "ports": [port],
        },
    }
    return apply_embedded(server.spec.cas_config, Child(SERVICES, body))


def deployment(server: JsonServer, default_image: str) -> JsonObject:
    """Return the Deployment."""
    name, custom = server.metadata.name, server.spec.template
    template: JsonObject = {
        "metadata": {
            # Our labels and annotations override the user's: without the hash, new data would not restart the
            # pods.
            "labels": {**custom.metadata.labels, **_labels(name)},
            "annotations": {
                **custom.metadata.annotations,
                CONFIG_HASH: config_hash(server.spec.json_config),
                **options.annotations(server.spec),
            },
        },
        "spec": overlay(_pod(server, server.spec.image or default_image), custom.spec),
    }
    body: JsonObject = {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": _metadata(server),
        "spec": {
            "replicas": server.spec.replicas,
            "selector": {"matchLabels": selector_labels(name)},
            "template": template,
        },
    }
    return apply_embedded(server.spec.cas_config, Child(DEPLOYMENTS, body, POD_TEMPLATE))


def _metadata(server: JsonServer) -> JsonObject:
    name = server.metadata.name
    return {"name": name, "namespace": server.metadata.namespace, "labels": _labels(name)}


def _labels(name: str) -> dict[str, str]:
    return {
        **selector_labels(name),
        "app.kubernetes.io/name": "json-server",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": "quintet",
        "app.kubernetes.io/part-of": "quintet",
    }


def _pod(server: JsonServer, image: str) -> JsonObject:
    source: JsonObject = {"name": CONFIG_VOLUME, "configMap": {"name": server.metadata.name}}
    pod: JsonObject = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(image, CONFIG_VOLUME, options.flags(server.spec))],
        "volumes": [source],
    }
    if server.spec.storage is Storage.EPHEMERAL:
        # json-server writes next to its file, so it gets a copy in a writable directory.
        pod["initContainers"] = [_copy_container(image)]
        pod["containers"] = [_container(image, DATA_VOLUME, options.flags(server.spec))]
        pod["volumes"].append({"name": DATA_VOLUME, "emptyDir": {"sizeLimit": "64Mi"}})
    if (files := options.volume(server.spec)) is not None:
        mount = {"name": files["name"], "mountPath": OPTIONS_PATH, "readOnly": True}
        pod["containers"][0]["volumeMounts"].append(mount)
        pod["volumes"].append(files)
    return pod


def _container(image: str, volume: str, flags: list[str]) -> JsonObject:
    probe: JsonObject = {"httpGet": {"path": "/", "port": "http"}}
    return {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": [f"{DATA_PATH}/{CONFIG_KEY}", "--host", "0.0.0.0", "--port", str(PORT), *flags],
        "ports": [{"name": "http", "containerPort": PORT, "protocol": "TCP"}],
        "volumeMounts": [{"name": volume, "mountPath": DATA_PATH}],
        "readinessProbe": {**probe, "periodSeconds": 2},
        "livenessProbe": {**probe, "periodSeconds": 10, "initialDelaySeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": _locked_down(),
    }


def _copy_container(image: str) -> JsonObject:
    return {
        "name": "copy-config",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["cp", f"{_SOURCE_PATH}/{CONFIG_KEY}", f"{DATA_PATH}/{CONFIG_KEY}"],
        "volumeMounts": [
            {"name": CONFIG_VOLUME, "mountPath": _SOURCE_PATH},
            {"name": DATA_VOLUME, "mountPath": DATA_PATH},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
        "securityContext": _locked_down(),
    }


def _locked_down() -> JsonObject:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
