"""The installation for the Operator Lifecycle Manager: bundle, catalog and OperatorHub layout.

The bundle contains the suite operator and the CRD of Quintet. The operator creates everything else itself,
including objects that a bundle must not contain, such as ValidatingAdmissionPolicies.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from quintet import __version__, imagenames, kinds
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET as KIND
from quintet.apis.suite import Topology
from quintet.components import Component
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition
from quintet.manifests.installation import QUINTET
from quintet.manifests.operator import operator, operator_process, operator_rules, quintet_object
from quintet.manifests.process import IMAGE
from quintet.manifests.text import HEADER, as_yaml

BUNDLE, CATALOG = Path("bundle"), Path("catalog/quintet")
PACKAGE = "quintet"
CHANNELS, DEFAULT_CHANNEL = ("candidate",), "candidate"
OLDEST_KUBERNETES = "1.32.0"
HOME = "https://quintet.dev"
MAINTAINER = {"name": "Quintet maintainers", "email": "maintainers@quintet.dev"}
SCORECARD = "scorecard-test:v1.42.0"
"""The image of the Operator SDK's scorecard tests; whoever runs them adds the registry."""
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 80 40"><g fill="#2f5d8a">'
    + "".join(
        f'<circle cx="{8 + 16 * number}" cy="{26 if number % 2 else 14}" r="7"/>' for number in range(5)
    )
    + "</g></svg>"
)
_DESCRIPTION = """\
Quintet is several operators in one product.

{kinds}

## Before you begin

Install it for all namespaces. There are no other prerequisites: the controllers create and renew the
certificates of their webhooks themselves.

## After the installation

Create an object of the kind `Quintet` named `quintet`: it selects the controllers. The operator installs
their CRDs, permissions, webhooks and Deployments, and upgrades them with each new version.

## Uninstall

Delete the Quintet first, and then this operator. Neither this nor removing a controller ever deletes a CRD or
an object of a user.
"""
_FIELD = "urn:alm:descriptor:com.tectonic.ui"
_CREATED = ("Deployment", "Service", "ServiceAccount", "ClusterRole", "CustomResourceDefinition")
_CONDITIONS = "urn:alm:descriptor:io.kubernetes.conditions"


@dataclass(frozen=True, slots=True)
class Release:
    """The version and the images that a bundle installs."""

    version: str = __version__
    image: str = IMAGE
    replaces: str = ""
    """The previous version, if there is one."""
    created: str = "2026-11-15T00:00:00Z"
    scorecard: str = SCORECARD

    @property
    def name(self) -> str:
        """The name of the ClusterServiceVersion."""
        return f"{PACKAGE}.v{self.version}"

    @property
    def images(self) -> list[JsonObject]:
        """The default images of all pods, which a disconnected cluster has to mirror."""
        named = {"json-server": imagenames.JSON_SERVER, "nats": imagenames.NATS, "quintet": self.image}
        return [{"name": name, "image": image} for name, image in named.items()]


def bundle(components: Sequence[Component], release: Release | None = None) -> dict[Path, str]:
    """Return the files of a bundle, relative to its folder."""
    chosen = release or Release()
    version = as_yaml(cluster_service_version(components, chosen))
    files = {
        Path("manifests") / f"{PACKAGE}.clusterserviceversion.yaml": version,
        Path("manifests") / f"{KIND.resource.qualified}.crd.yaml": as_yaml(custom_resource_definition(KIND)),
        Path("metadata") / "annotations.yaml": as_yaml({"annotations": annotations()}),
        Path("tests/scorecard") / "config.yaml": as_yaml(_scorecard(chosen.scorecard)),
    }
    for body in additional_objects(components):
        name = f"{body['metadata']['name']}.{body['kind'].lower()}.yaml"
        files[Path("manifests") / name] = as_yaml(body)
    return files


def dockerfile() -> str:
    """Return the Dockerfile of the bundle image."""
    labels = [f"LABEL {name}={value}" for name, value in annotations().items()]
    copies = [f"COPY {folder} /{folder}/" for folder in ("manifests", "metadata", "tests/scorecard")]
    return HEADER + "\n".join(["FROM scratch", *labels, *copies]) + "\n"


def catalog(components: Sequence[Component], release: Release | None = None, earlier: str = "") -> str:
    """Return a file-based catalog: the entries of the previous catalog, unchanged, and this release."""
    chosen = release or Release()
    before = [each for each in yaml.safe_load_all(earlier) if each]
    documents: list[JsonObject] = [
        {
            "schema": "olm.package",
            "name": PACKAGE,
            "defaultChannel": DEFAULT_CHANNEL,
            "description": _description(),
            "icon": {"base64data": icon(), "mediatype": "image/svg+xml"},
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
    documents.append(_catalog_bundle(components, chosen))
    # opm reads text before the first separator as a document.
    return HEADER + as_yaml(*documents).removeprefix(HEADER).removeprefix("---\n")


def hub_settings() -> str:
    """Return the `ci.yaml` of a submission to OperatorHub."""
    return as_yaml({"updateGraph": "replaces-mode", "reviewers": []})


def annotations() -> dict[str, str]:
    """Return the annotations of the bundle, which are also labels of its image."""
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


def additional_objects(components: Sequence[Component]) -> list[JsonObject]:
    """Return the bundle's objects besides the operator: ClusterRoles for users and Services for metrics.

    OLM sets the namespace of namespaced objects. NetworkPolicies are left out: some pipelines reject them.
    """
    found = []
    for body in operator(components):
        role = body["kind"] == "ClusterRole" and body["metadata"]["name"] != QUINTET.operator
        if role or body["kind"] == "Service":
            metadata = {name: value for name, value in body["metadata"].items() if name != "namespace"}
            found.append({**body, "metadata": metadata})
    return found


def cluster_service_version(components: Sequence[Component], release: Release) -> JsonObject:
    """Return the ClusterServiceVersion of the operator."""
    spec = {
        **_about(release),
        "installModes": [
            {"type": mode, "supported": mode == "AllNamespaces"}
            for mode in ("OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces")
        ],
        "customresourcedefinitions": {"owned": [_owned_crd()]},
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
        "description": _description(),
        "version": release.version,
        "minKubeVersion": OLDEST_KUBERNETES,
        "maturity": "alpha",
        "keywords": ["mock", "eventing", "statefulset", "configuration", "checkup"],
        "maintainers": [dict(MAINTAINER)],
        "provider": {"name": "Quintet", "url": HOME},
        "links": [{"name": "Quintet", "url": HOME}],
        "icon": [{"base64data": icon(), "mediatype": "image/svg+xml"}],
    }


def _strategy(components: Sequence[Component], release: Release) -> JsonObject:
    """Return the same permissions and Deployments as the other ways to install."""
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
        "support": MAINTAINER["name"],
        "operatorframework.io/initialization-resource": json.dumps(quintet_object(), indent=2),
        "operatorframework.io/suggested-namespace": QUINTET.namespace,
    }


def _owned_crd() -> JsonObject:
    return {
        "name": KIND.resource.qualified,
        "kind": KIND.resource.kind,
        "version": KIND.resource.version,
        "displayName": "Quintet",
        "description": "Selects and configures the controllers of this cluster.",
        "resources": [{"kind": kind, "name": "", "version": "v1"} for kind in _CREATED],
        "specDescriptors": [
            _descriptor("controllers", "The controllers to run. Defaults to all."),
            _descriptor(
                "topology", "Separate or Combined.", *(f"{_FIELD}:select:{each}" for each in Topology)
            ),
            _descriptor("replicas", "Number of pods of each controller.", f"{_FIELD}:podCount"),
        ],
        "statusDescriptors": [
            _descriptor("ready", "Number of ready controllers."),
            _descriptor("version", "The version of the operator."),
            _descriptor("conditions", "Conditions of the installation.", _CONDITIONS),
        ],
    }


def _descriptor(path: str, description: str, *hints: str) -> JsonObject:
    """Return how the console shows a field."""
    found: JsonObject = {"path": path, "displayName": path.capitalize(), "description": description}
    return {**found, "x-descriptors": list(hints)} if hints else found


def _entries(before: Sequence[JsonObject], channel: str, release: Release) -> list[JsonObject]:
    """Return the entries of a channel in the previous catalog, without this release."""
    found = [
        entry
        for each in before
        if (each["schema"], each["name"]) == ("olm.channel", channel)
        for entry in each["entries"]
        if entry["name"] != release.name
    ]
    if found and release.replaces not in {entry["name"].removeprefix(f"{PACKAGE}.v") for entry in found}:
        offered = ", ".join(entry["name"] for entry in found)
        raise ValueError(f"{release.name} must replace a version of the previous catalog: {offered}")
    return found


def _entry(release: Release) -> JsonObject:
    entry = {"name": release.name}
    return {**entry, "replaces": f"{PACKAGE}.v{release.replaces}"} if release.replaces else entry


def _catalog_bundle(components: Sequence[Component], release: Release) -> JsonObject:
    """Return the catalog entry of the bundle, with its objects inlined: no bundle image is unpacked."""
    resource = KIND.resource
    properties: list[JsonObject] = [
        {"type": "olm.package", "value": {"packageName": PACKAGE, "version": release.version}},
        {
            "type": "olm.gvk",
            "value": {"group": resource.group, "kind": resource.kind, "version": resource.version},
        },
    ]
    made = [
        cluster_service_version(components, release),
        custom_resource_definition(KIND),
        *additional_objects(components),
    ]
    properties += [
        {"type": "olm.bundle.object", "value": {"data": base64.b64encode(_encode(body)).decode()}}
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


def _encode(body: JsonObject) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _description() -> str:
    lines = [f"* **{kind.name}**: {kind.summary}" for kind in kinds.all_kinds() if kind.component]
    return _DESCRIPTION.format(kinds="\n".join(lines))


def icon() -> str:
    """Return the icon: SVG in base64."""
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
