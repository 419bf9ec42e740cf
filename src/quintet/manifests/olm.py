"""The same installation for the Operator Lifecycle Manager: bundle, catalog and OperatorHub layout.

Called by `files` and `release`. The bundle holds the operator and the definition of the Quintet; everything
else the operator makes by itself, also what a bundle may not hold (admission policies). The owner of the
Quintet in the bundle's words is what the other ways to install say too: `operator` decides it.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from quintet import __version__, imagenames
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET as KIND
from quintet.apis.suite import Topology
from quintet.components import Component
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import QUINTET
from quintet.manifests.operator import quintet_object, operator, operator_process, operator_rules
from quintet.manifests.process import IMAGE
from quintet.manifests.text import HEADER, as_yaml

BUNDLE, CATALOG = Path("bundle"), Path("catalog/quintet")
PACKAGE = "quintet"
CHANNELS, DEFAULT_CHANNEL = ("candidate",), "candidate"
OLDEST_KUBERNETES = "1.32.0"
HOME = "https://quintet.dev"
SCORECARD = "scorecard-test:v1.42.0"
"""The tests of the Operator SDK's scorecard. Where a cluster finds them is up to whoever runs them."""
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><g fill="#2f5d8a">'
    + "".join(
        f'<circle cx="{8 + 16 * number}" cy="{26 if number % 2 else 14}" r="7"/>' for number in range(5)
    )
    + "</g></svg>"
)
_DESCRIPTION = """\
Quintet is five operators in one product.

* **JsonServer**: a mock JSON API from a custom resource.
* **EventingBackend** and **Subscription**: typed eventing backends with discovery and a real data plane.
* **StatefulCluster**: a StatefulSet without ordinals.
* **CASConfig**: configuration injected into other resources, and undone again.
* **Checkup**: diagnostic jobs with results.

## Before you begin

Install it for all namespaces. Nothing else is needed: certificates of webhooks are made and renewed by the
controllers themselves.

## After the installation

Create one object of the kind `Quintet` named `quintet`: it says which controllers run. The operator brings
their definitions, rights, webhooks and pods, and keeps them up to date when a new version comes.

## Removing it

Delete the Quintet first, and then this operator. Neither this nor taking out a controller ever removes a
definition or an object of a user.
"""
_FIELD = "urn:alm:descriptor:com.tectonic.ui"
_MADE = ("Deployment", "Service", "ServiceAccount", "ClusterRole", "CustomResourceDefinition")
_CONDITIONS = "urn:alm:descriptor:io.kubernetes.conditions"


@dataclass(frozen=True, slots=True)
class Release:
    """Which version of what is offered."""

    version: str = __version__
    image: str = IMAGE
    replaces: str = ""
    """The version before, if there is one."""
    created: str = "2026-11-15T00:00:00Z"
    scorecard: str = SCORECARD

    @property
    def name(self) -> str:
        """What a bundle of this version is called."""
        return f"{PACKAGE}.v{self.version}"

    @property
    def images(self) -> list[JsonObject]:
        """All that pods run unless users say otherwise: what a cluster without a way out has to mirror."""
        named = {"json-server": imagenames.JSON_SERVER, "nats": imagenames.NATS, "quintet": self.image}
        return [{"name": name, "image": image} for name, image in named.items()]


def bundle(components: Sequence[Component], release: Release | None = None) -> dict[Path, str]:
    """The files of a bundle, below its own folder."""
    chosen = release or Release()
    version = as_yaml(cluster_service_version(components, chosen))
    files = {
        Path("manifests") / f"{PACKAGE}.clusterserviceversion.yaml": version,
        Path("manifests") / f"{KIND.resource.qualified}.crd.yaml": as_yaml(custom_resource_definition(KIND)),
        Path("metadata") / "annotations.yaml": as_yaml({"annotations": annotations()}),
        Path("tests/scorecard") / "config.yaml": as_yaml(_scorecard(chosen.scorecard)),
    }
    for body in beside(components):
        name = f"{body['metadata']['name']}.{body['kind'].lower()}.yaml"
        files[Path("manifests") / name] = as_yaml(body)
    return files


def dockerfile() -> str:
    """How a bundle becomes an image."""
    labels = [f"LABEL {name}={value}" for name, value in annotations().items()]
    copies = [f"COPY {folder} /{folder}/" for folder in ("manifests", "metadata", "tests/scorecard")]
    return HEADER + "\n".join(["FROM scratch", *labels, *copies]) + "\n"


def catalog(components: Sequence[Component], release: Release | None = None, earlier: str = "") -> str:
    """A file-based catalog: what the one of the version before offers, word for word, and this release."""
    chosen = release or Release()
    before = [each for each in yaml.safe_load_all(earlier) if each]
    documents: list[JsonObject] = [
        {
            "schema": "olm.package",
            "name": PACKAGE,
            "defaultChannel": DEFAULT_CHANNEL,
            "description": _DESCRIPTION,
            "icon": {"base64data": _icon(), "mediatype": "image/svg+xml"},
        }
    ]
    documents += [
        {
            "schema": "olm.channel",
            "package": PACKAGE,
            "name": name,
            "entries": [*_entries(before, name, chosen), _entry(chosen)],
        }
        for name in CHANNELS
    ]
    documents += [each for each in before if each["schema"] == "olm.bundle" and each["name"] != chosen.name]
    documents.append(_offered(components, chosen))
    # What stands before the first separator is a document of its own to opm.
    return HEADER + as_yaml(*documents).removeprefix(HEADER).removeprefix("---\n")


def hub_settings() -> str:
    """The `ci.yaml` of a submission to OperatorHub."""
    return as_yaml({"updateGraph": "replaces-mode", "reviewers": []})


def annotations() -> dict[str, str]:
    """What a bundle says of itself, in its metadata and as labels of its image."""
    bundled = "operators.operatorframework.io.bundle"
    return {
        f"{bundled}.mediatype.v1": "registry+v1",
        f"{bundled}.manifests.v1": "manifests/",
        f"{bundled}.metadata.v1": "metadata/",
        f"{bundled}.package.v1": PACKAGE,
        f"{bundled}.channels.v1": ",".join(CHANNELS),
        f"{bundled}.channel.default.v1": DEFAULT_CHANNEL,
        "operators.operatorframework.io.test.mediatype.v1": "scorecard+v1",
        "operators.operatorframework.io.test.config.v1": "tests/scorecard/",
    }


def beside(components: Sequence[Component]) -> list[JsonObject]:
    """What the bundle holds beside the operator: roles for people, and where Prometheus finds it.

    OLM puts namespaced objects where the operator goes, and some pipelines refuse NetworkPolicies.
    """
    found = []
    for body in operator(components):
        role = body["kind"] == "ClusterRole" and body["metadata"]["name"] != QUINTET.operator
        if role or body["kind"] == "Service":
            metadata = {name: value for name, value in body["metadata"].items() if name != "namespace"}
            found.append({**body, "metadata": metadata})
    return found


def cluster_service_version(components: Sequence[Component], release: Release) -> JsonObject:
    """The operator as OLM knows it."""
    spec = {
        **_about(release),
        "installModes": [
            {"type": mode, "supported": mode == "AllNamespaces"}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "customresourcedefinitions": {"owned": [_owned()]},
        "install": {"strategy": "deployment", "spec": _strategy(components, release)},
        "relatedImages": release.images,
    }
    if release.replaces:
        spec["replaces"] = f"{PACKAGE}.v{release.replaces}"
    platforms = {f"operatorframework.io/{name}": "supported" for name in ("arch.amd64", "os.linux")}
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": release.name,
            "namespace": "placeholder",
            "labels": platforms,
            "annotations": _service_annotations(release),
        },
        "spec": spec,
    }


def _about(release: Release) -> JsonObject:
    return {
        "displayName": "Quintet",
        "description": _DESCRIPTION,
        "version": release.version,
        "minKubeVersion": OLDEST_KUBERNETES,
        "maturity": "alpha",
        "keywords": ["mock", "eventing", "statefulset", "configuration", "checkup"],
        "maintainers": [{"name": "Quintet maintainers", "email": "maintainers@quintet.dev"}],
        "provider": {"name": "Quintet", "url": HOME},
        "links": [{"name": "Quintet", "url": HOME}],
        "icon": [{"base64data": _icon(), "mediatype": "image/svg+xml"}],
    }


def _strategy(components: Sequence[Component], release: Release) -> JsonObject:
    """The same rights and the same pods as any other way to install gives."""
    cluster, own = operator_rules(components)
    process = operator_process(replace(QUINTET, image=release.image))
    deployment = processes.deployment(process)
    labels, spec = deployment["metadata"]["labels"], deployment["spec"]
    return {
        "clusterPermissions": [{"serviceAccountName": process.name, "rules": cluster}],
        "permissions": [{"serviceAccountName": process.name, "rules": own}],
        "deployments": [{"name": process.name, "label": labels, "spec": spec}],
    }


def _service_annotations(release: Release) -> dict[str, str]:
    return {
        "alm-examples": json.dumps([quintet_object()], indent=2),
        "capabilities": "Seamless Upgrades",
        "categories": "Developer Tools, Application Runtime, Streaming & Messaging, Monitoring",
        "containerImage": release.image,
        "createdAt": release.created,
        "description": "Mock APIs, eventing, stateful clusters, injected configuration and checkups.",
        "repository": HOME,
        "support": "Quintet maintainers",
        "operatorframework.io/initialization-resource": json.dumps(quintet_object(), indent=2),
        "operatorframework.io/suggested-namespace": QUINTET.namespace,
    }


def _owned() -> JsonObject:
    return {
        "name": KIND.resource.qualified,
        "kind": KIND.resource.kind,
        "version": KIND.resource.version,
        "displayName": "Quintet",
        "description": "Which controllers run in this cluster, and how.",
        "resources": [{"kind": kind, "name": "", "version": "v1"} for kind in _MADE],
        "specDescriptors": [
            _descriptor("controllers", "Which run; left out: all."),
            _descriptor(
                "topology", "Separate, or Combined.", *(f"{_FIELD}:select:{each}" for each in Topology)
            ),
            _descriptor("replicas", "Pods of each controller.", f"{_FIELD}:podCount"),
        ],
        "statusDescriptors": [
            _descriptor("ready", "Controllers that are ready."),
            _descriptor("version", "The version of the operator."),
            _descriptor("conditions", "How it is doing.", _CONDITIONS),
        ],
    }


def _descriptor(path: str, description: str, *looks: str) -> JsonObject:
    """How a console shows a field."""
    found: JsonObject = {"path": path, "displayName": path.capitalize(), "description": description}
    return {**found, "x-descriptors": list(looks)} if looks else found


def _entries(before: Sequence[JsonObject], channel: str, release: Release) -> list[JsonObject]:
    """What a channel offered before; a release that is made again is not offered twice."""
    found = [
        entry
        for each in before
        if (each["schema"], each["name"]) == ("olm.channel", channel)
        for entry in each["entries"]
        if entry["name"] != release.name
    ]
    if found and release.replaces not in {entry["name"].removeprefix(f"{PACKAGE}.v") for entry in found}:
        offered = ", ".join(entry["name"] for entry in found)
        raise ValueError(f"{release.name} must replace a version of the catalog before it: {offered}")
    return found


def _entry(release: Release) -> JsonObject:
    entry = {"name": release.name}
    return {**entry, "replaces": f"{PACKAGE}.v{release.replaces}"} if release.replaces else entry


def _offered(components: Sequence[Component], release: Release) -> JsonObject:
    """A bundle in a catalog. Its objects are in it, so no image of it has to be unpacked."""
    resource = KIND.resource
    properties: list[JsonObject] = [
        {"type": "olm.package", "value": {"packageName": PACKAGE, "version": release.version}},
        {
            "type": "olm.gvk",
            "value": {"group": resource.group, "kind": resource.kind, "version": resource.version},
        },
    ]
    made = [cluster_service_version(components, release), custom_resource_definition(KIND), *beside(components)]
    properties += [
        {"type": "olm.bundle.object", "value": {"data": base64.b64encode(_encoded(body)).decode()}}
        for body in made
    ]
    return {
        "schema": "olm.bundle",
        "package": PACKAGE,
        "name": release.name,
        "image": "",
        "properties": properties,
        "relatedImages": release.images,
    }


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _icon() -> str:
    return base64.b64encode(_ICON.encode()).decode()


def _scorecard(image: str) -> JsonObject:
    def test(entrypoint: str, suite: str, name: str) -> JsonObject:
        return {
            "entrypoint": ["scorecard-test", entrypoint],
            "image": image,
            "labels": {"suite": suite, "test": name},
        }

    ours = ("bundle-validation", "crds-have-validation", "crds-have-resources")
    tests = [test("basic-check-spec", "basic", "basic-check-spec-test")]
    tests += [
        test(f"olm-{name}", "olm", f"olm-{name}-test")
        for name in (*ours, "spec-descriptors", "status-descriptors")
    ]
    return {
        "apiVersion": "scorecard.operatorframework.io/v1alpha3",
        "kind": "Configuration",
        "metadata": {"name": "config"},
        "stages": [{"parallel": True, "tests": tests}],
    }
