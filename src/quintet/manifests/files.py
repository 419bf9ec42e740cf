"""All generated files of the repository, and their differences from the committed ones."""

from collections.abc import Sequence
from pathlib import Path

from quintet.apis.resources import CustomResource
from quintet.components import Component
from quintet.manifests.catalog import catalog_page
from quintet.manifests.crd import MOST_BYTES, custom_resource_definition, size_as_annotation
from quintet.manifests.discovery import published_service
from quintet.manifests.helm.chart import CHART, chart
from quintet.manifests.installation import KIAGNOSE as KIAGNOSE_FLAVOUR
from quintet.manifests.installation import QUINTET, Flavour
from quintet.manifests.manager import manager, namespace
from quintet.manifests.monitoring import eventing_monitor, prometheus_rule
from quintet.manifests.olm import BUNDLE, CATALOG, bundle, catalog, dockerfile
from quintet.manifests.operator import operator, operator_process, quintet_object
from quintet.manifests.permissionspage import permissions_page
from quintet.manifests.policy import policies
from quintet.manifests.process import service_monitor
from quintet.manifests.rbac import metrics_reader_role, operator_roles, optional_roles, user_roles
from quintet.manifests.text import HEADER, as_yaml

Files = dict[Path, str]
"""Path below the root of the repository → content."""

CRD_FOLDER = Path("config/crd")
INSTALLATION = Path("config/default")
KYMA = Path("config/kyma")
OPERATOR = Path("config/operator")
KIAGNOSE = Path("config/kiagnose")
PROMETHEUS = Path("config/prometheus")
CATALOG_PAGE = Path("docs/eventingbackend-catalog.md")
PERMISSIONS_PAGE = Path("docs/permissions.md")
FOLDERS = (CRD_FOLDER, INSTALLATION, KYMA, OPERATOR, KIAGNOSE, PROMETHEUS, CHART, BUNDLE, CATALOG)
"""Folders in which files with our header that are no longer generated are removed."""


def generate(declared: Sequence[CustomResource], components: Sequence[Component] = ()) -> Files:
    """Return the files: CRDs, and with components also the installation files."""
    files = {CRD_FOLDER / f"{each.resource.qualified}.yaml": _crd_file(each) for each in declared}
    if not components:
        return files
    return files | _installation(declared, components, sorted(files)) | _packages(components)


def _installation(
    declared: Sequence[CustomResource], components: Sequence[Component], crds: Sequence[Path]
) -> Files:
    """Return the files for `kubectl apply -k config/default`, which installs everything."""
    parts = {
        "namespace.yaml": [namespace()],
        "rbac.yaml": [
            *operator_roles(components),
            *optional_roles(components),
            metrics_reader_role(),
            *user_roles(declared),
        ],
        "policies.yaml": policies(
            requirement for component in components for requirement in component.user_requirements
        ),
        "manager.yaml": manager(),
    }
    files = {INSTALLATION / name: as_yaml(*objects) for name, objects in parts.items()}
    files[INSTALLATION / "kustomization.yaml"] = _kustomization(["../crd", *parts])
    files[CRD_FOLDER / "kustomization.yaml"] = _kustomization([path.name for path in crds])
    files[KYMA / "kustomization.yaml"] = _kustomization(["discovery.yaml"])
    files[KYMA / "discovery.yaml"] = as_yaml(published_service())
    files[CATALOG_PAGE] = catalog_page()
    files[PERMISSIONS_PAGE] = permissions_page(components)
    return files


def _packages(components: Sequence[Component]) -> Files:
    """Return the files of the suite operator for kustomize, Helm and OLM."""
    files = {**_operator(OPERATOR, components, QUINTET), **_operator(KIAGNOSE, components, KIAGNOSE_FLAVOUR)}
    files |= chart(components) | _monitoring()
    files |= {BUNDLE / path: content for path, content in bundle(components).items()}
    files[BUNDLE / "bundle.Dockerfile"] = dockerfile()
    files[CATALOG / "catalog.yaml"] = catalog(components)
    return files


def _operator(folder: Path, components: Sequence[Component], flavour: Flavour) -> Files:
    """Return the files for `kubectl apply -k`; the Quintet is separate, because its CRD must exist first."""
    return {
        folder / "operator.yaml": as_yaml(*operator(components, flavour)),
        folder / "kustomization.yaml": _kustomization(["operator.yaml"]),
        folder / "quintet.yaml": as_yaml(quintet_object(flavour)),
    }


def _monitoring() -> Files:
    """Return the files for `kubectl apply -k config/prometheus`, for the Prometheus Operator."""
    process = operator_process()
    return {
        PROMETHEUS / "servicemonitor.yaml": as_yaml(service_monitor(process), eventing_monitor(process)),
        PROMETHEUS / "prometheusrule.yaml": as_yaml(prometheus_rule(process)),
        PROMETHEUS / "kustomization.yaml": _kustomization(["servicemonitor.yaml", "prometheusrule.yaml"]),
    }


def _kustomization(resources: list[str]) -> str:
    return as_yaml(
        {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources}
    )


def differences(root: Path, files: Files) -> list[Path]:
    """Return the paths of files that are missing, different or no longer generated."""
    changed = [path for path, content in files.items() if _read(root / path) != content]
    return sorted([*changed, *_find_stale(root, files)])


def write(root: Path, files: Files) -> list[Path]:
    """Write the files that differ, remove those no longer generated; return their paths."""
    changed = differences(root, files)
    for path in changed:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(files[path], encoding="utf-8")
        else:
            (root / path).unlink()
    return changed


def _crd_file(declared: CustomResource) -> str:
    crd = custom_resource_definition(declared)
    size = size_as_annotation(crd)
    if size >= MOST_BYTES:
        name = declared.resource.qualified
        raise ValueError(f"the CRD {name} has {size} bytes; it must have less than {MOST_BYTES}")
    return as_yaml(crd)


def _find_stale(root: Path, files: Files) -> list[Path]:
    found = [path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob("*.yaml")]
    return [path for path in found if path not in files and (_read(root / path) or "").startswith(HEADER)]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
