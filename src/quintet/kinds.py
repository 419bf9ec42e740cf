"""The registry of kinds: a new kind is its own folders and one `Kind` here.

A `Kind` names the parts of a kind as references, "module:attribute", which `load` imports on first use:
importing the registry imports nothing of any kind, so that commands start fast.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

PROBE_NAME: Final = "app-quintet-doctor"
"""The name of the objects that `quintet doctor` sends as a dry run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Where the parts of one kind are."""

    api_version: str
    name: str
    summary: str
    """One line for catalogs, in lower case."""
    component: str
    """The controller that reconciles it, as in `--controllers`; empty for the suite operator's own kind."""
    declaration: str
    """A `CustomResource`: types, columns and CRD settings."""
    rbac: str
    """A module with `PERMISSIONS`, and optionally `USER_REQUIREMENTS` and `OPTIONAL_ROLES`."""
    start: str = ""
    """A function `(Manager, Settings)` that adds the controllers of the component; set for one kind of it."""
    admission: str = ""
    """An `Admission`: the webhooks, and what `quintet validate` calls."""
    configured_admissions: str = ""
    """A function `(Settings)` that returns the webhooks, where they depend on settings of the process."""
    serve: str = ""
    """A function `(Settings, Clock)` that returns a context manager, for what each replica serves besides."""
    preview: str = ""
    """A function `(object, Images)` that returns a `Preview` of the children."""
    probe: Mapping[str, Any] = field(default_factory=dict)
    """The smallest valid spec, with which `quintet doctor` tests the webhooks; `{namespace}` is replaced."""
    docs_page: str
    sample: str = ""
    """A file below `config/samples`, or an absolute path."""
    full_sample: str = ""
    """A file with every field set."""
    demo: str = ""
    """A `Sample` of the demo: an object and the proof that it works."""


def load(reference: str) -> Any:
    """Import and return what a reference, "module:attribute" or "module", names."""
    module, _, attribute = reference.partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


_PROBE_LABELS: Final = {"app": PROBE_NAME}
_KINDS: Final = [
    Kind(
        api_version="quintet.dev/v1alpha1",
        name="Quintet",
        summary="the installation itself: which controllers run in a cluster, and how.",
        component="",
        declaration="quintet.apis.suite:QUINTET",
        rbac="quintet.controllers.suite.rbac",
        preview="quintet.controllers.suite.preview:preview",
        docs_page="docs/suite.md",
    ),
    Kind(
        api_version="example.com/v1",
        name="JsonServer",
        summary="a mock JSON API from a custom resource.",
        component="jsonserver",
        declaration="quintet.apis.jsonserver:JSONSERVER",
        rbac="quintet.controllers.jsonserver.rbac",
        start="quintet.components:start_jsonserver",
        admission="quintet.admission.jsonserver:ADMISSION",
        preview="quintet.controllers.jsonserver.preview:preview",
        probe={"jsonConfig": "{}"},
        docs_page="docs/jsonserver.md",
        sample="jsonserver.yaml",
        full_sample="jsonserver-every-field.yaml",
        demo="quintet.demo.samples:JSONSERVER",
    ),
    Kind(
        api_version="kiagnose.io/v1alpha1",
        name="Checkup",
        summary="diagnostic jobs with results.",
        component="checkup",
        declaration="quintet.apis.checkup:CHECKUP",
        rbac="quintet.controllers.checkup.rbac",
        start="quintet.components:start_checkup",
        admission="quintet.admission.checkup:ADMISSION",
        preview="quintet.controllers.checkup.preview:preview",
        probe={"image": "quintet.local/none:1", "serviceAccountName": "default", "timeoutSeconds": 60},
        docs_page="docs/checkup.md",
        sample="checkup.yaml",
        full_sample="checkup-every-field.yaml",
        demo="quintet.demo.samples:CHECKUP",
    ),
    Kind(
        api_version="openebs.io/v1alpha1",
        name="CASConfig",
        summary="configuration injected into other resources, and undone again.",
        component="casconfig",
        declaration="quintet.apis.casconfig:CASCONFIG",
        rbac="quintet.controllers.casconfig.rbac",
        start="quintet.components:start_casconfig",
        admission="quintet.admission.casconfig:ADMISSION",
        preview="quintet.controllers.casconfig.preview:preview",
        probe={
            "policies": [
                {"name": "none", "include": {"kinds": ["Deployment"]}, "values": {"envs": {"DOCTOR": "here"}}}
            ]
        },
        docs_page="docs/casconfig.md",
        sample="casconfig.yaml",
        full_sample="casconfig-every-field.yaml",
        demo="quintet.demo.samples:CASCONFIG",
    ),
    Kind(
        api_version="enge.me/v1alpha1",
        name="StatefulCluster",
        summary="a StatefulSet without ordinals.",
        component="statefulcluster",
        declaration="quintet.apis.statefulcluster:STATEFULCLUSTER",
        rbac="quintet.controllers.statefulcluster.rbac",
        start="quintet.components:start_statefulcluster",
        admission="quintet.admission.statefulcluster:ADMISSION",
        preview="quintet.controllers.statefulcluster.preview:preview",
        probe={
            "replicas": 1,
            "serviceName": PROBE_NAME,
            "selector": {"matchLabels": _PROBE_LABELS},
            "template": {
                "metadata": {"labels": _PROBE_LABELS},
                "spec": {"containers": [{"name": "none", "image": "quintet.local/none:1"}]},
            },
        },
        docs_page="docs/statefulcluster.md",
        sample="statefulcluster.yaml",
        full_sample="statefulcluster-every-field.yaml",
        demo="quintet.demo.samples:STATEFULCLUSTER",
    ),
    Kind(
        api_version="eventing.kyma-project.io/v1alpha1",
        name="EventingBackend",
        summary="typed eventing backends with discovery and a real data plane.",
        component="eventing",
        declaration="quintet.apis.eventingbackend:EVENTINGBACKEND",
        rbac="quintet.controllers.eventingbackend.rbac",
        start="quintet.components:start_eventing",
        admission="quintet.admission.eventingbackend:REJECTING",
        configured_admissions="quintet.components:eventingbackend_admissions",
        serve="quintet.components:serve_discovery",
        preview="quintet.controllers.eventingbackend.preview:preview",
        probe={"type": "nats"},
        docs_page="docs/eventingbackend.md",
        sample="eventingbackend.yaml",
        full_sample="eventingbackend-every-key.yaml",
        demo="quintet.demo.samples:EVENTING",
    ),
    Kind(
        api_version="eventing.kyma-project.io/v1alpha2",
        name="Subscription",
        summary="events delivered from a backend to a service.",
        component="eventing",
        declaration="quintet.apis.subscription:SUBSCRIPTION",
        rbac="quintet.controllers.subscription.rbac",
        admission="quintet.admission.subscription:ADMISSION",
        preview="quintet.controllers.subscription.preview:preview",
        probe={
            "source": "doctor",
            "types": ["doctor.asked.v1"],
            "sink": f"http://{PROBE_NAME}.{{namespace}}.svc.cluster.local",
        },
        docs_page="docs/subscription.md",
        full_sample="subscription-every-field.yaml",
    ),
]


def register(kind: Kind) -> None:
    """Add a kind. Call this before importing anything that reads the registry."""
    if find(kind.api_version, kind.name) is not None:
        raise ValueError(f"{kind.name} of {kind.api_version} is registered already")
    _KINDS.append(kind)


def all_kinds() -> tuple[Kind, ...]:
    """Return all kinds; the suite operator's own kind comes first."""
    return tuple(_KINDS)


def find(api_version: str, name: str) -> Kind | None:
    """Return the kind of an object; None if it is not one of ours."""
    return next((kind for kind in _KINDS if (kind.api_version, kind.name) == (api_version, name)), None)


def component_names() -> tuple[str, ...]:
    """Return the names of the controllers, as in `--controllers`."""
    return tuple(dict.fromkeys(kind.component for kind in _KINDS if kind.component))
