"""The Helm chart of the suite operator.

Its templates are generated from the objects of the other ways to install, with expressions where the chart
has values; what only the chart has is in the folder `files`. The CRD of Quintet is in `crds/`, which Helm
never changes or deletes; the operator upgrades it.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from quintet import __version__
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET as KIND
from quintet.apis.suite.types import Metrics
from quintet.components import Component
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition, object_schema
from quintet.manifests.helm.expressions import as_template, items, merge, optional, scalar
from quintet.manifests.installation import QUINTET, Flavour
from quintet.manifests.monitoring import eventing_monitor, prometheus_rule
from quintet.manifests.olm import HOME, MAINTAINER, icon
from quintet.manifests.operator import operator, operator_process
from quintet.manifests.process import MetricsMode
from quintet.manifests.text import HEADER, as_yaml

CHART = Path("charts/quintet")
OLDEST_KUBERNETES = "1.32.0"

_SOURCES = Path(__file__).with_name("files")
_IMAGE = '{{ include "quintet.image" . }}'
_FLAVOUR: Flavour = replace(QUINTET, namespace="{{ .Release.Namespace }}", image=_IMAGE)
_LEVEL = "{{ .Values.operator.logLevel }}"
_METRICS = MetricsMode("{{ lower .Values.operator.metrics }}", '{{ include "quintet.metricsPort" . }}')
_FILES = {
    "serviceaccount.yaml": ("ServiceAccount",),
    "rbac.yaml": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "service.yaml": ("Service",),
    "deployment.yaml": ("Deployment",),
    "poddisruptionbudget.yaml": ("PodDisruptionBudget",),
    "networkpolicy.yaml": ("NetworkPolicy",),
    "servicemonitor.yaml": ("ServiceMonitor",),
    "prometheusrule.yaml": ("PrometheusRule",),
}
_CONDITIONS = {
    "NetworkPolicy": ".Values.networkPolicy.enabled",
    "ServiceMonitor": ".Values.serviceMonitor.enabled",
    "PrometheusRule": ".Values.prometheusRule.enabled",
}
_SCHEDULING = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName")
_README = """\
# Quintet

Five Kubernetes operators in one product, which this chart installs with the suite operator.

```sh
helm install quintet charts/quintet --namespace quintet-system --create-namespace
helm test quintet --namespace quintet-system
```

`helm upgrade` upgrades the operator, which then upgrades CRDs and controllers. The CRD of Quintet is in
`crds/`: Helm creates it and never changes or deletes it. If a new version has new fields in `quintet.spec`,
run `kubectl apply --server-side --force-conflicts -f charts/quintet/crds` before `helm upgrade`.
`helm uninstall` keeps the CRDs and all objects of users.

## Values

| value | default | meaning |
|---|---|---|
{rows}

The settings of the controllers' pods are those of the Quintet, in `quintet.spec.pods`. More:
[{home}/docs/suite.md]({home}/docs/suite.md).
"""
_ELSEWHERE = ("Namespace", "CustomResourceDefinition", "Service", "Deployment")
_PART_OF = "app.kubernetes.io/part-of"


def chart(components: Sequence[Component]) -> dict[Path, str]:
    """Return the files of the chart."""
    copied = {
        path.relative_to(_SOURCES): path.read_text(encoding="utf-8")
        for path in sorted(_SOURCES.rglob("*"))
        if path.is_file()
    }
    generated = {
        Path("Chart.yaml"): as_yaml(_chart()),
        Path("README.md"): _readme(),
        Path("values.schema.json"): json.dumps(values_schema(), indent=2) + "\n",
        Path("crds") / f"{KIND.resource.qualified}.yaml": as_yaml(custom_resource_definition(KIND)),
        **_templates(components),
    }
    return {CHART / path: content for path, content in (copied | generated).items()}


def _chart() -> JsonObject:
    return {
        "apiVersion": "v2",
        "name": "quintet",
        "description": "Five Kubernetes operators in one product",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": f">= {OLDEST_KUBERNETES}-0",
        "keywords": ["operator", "mock", "eventing", "statefulset", "checkup"],
        "home": HOME,
        "icon": f"data:image/svg+xml;base64,{icon()}",
        "sources": [HOME],
        "maintainers": [dict(MAINTAINER)],
        "annotations": {
            "artifacthub.io/category": "integration-delivery",
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": "Seamless Upgrades",
            "artifacthub.io/links": f"- name: Documentation\n  url: {HOME}/docs/suite.md\n",
        },
    }


def values() -> JsonObject:
    """Return the default values."""
    found: JsonObject = yaml.safe_load((_SOURCES / "values.yaml").read_text(encoding="utf-8"))
    return found


def values_schema() -> JsonObject:
    """Return the JSON Schema of the values; those of a pod and of `quintet.spec` come from CRDs."""
    spec = _plain_schema(object_schema(KIND)["properties"]["spec"])
    pods = spec["properties"]["pods"]["properties"]
    text, number = {"type": "string"}, {"type": ["integer", "string"]}
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    switch = {"enabled": {"type": "boolean"}}
    operator_values = {
        "replicas": {"type": "integer", "minimum": 1, "maximum": 5},
        "logLevel": {"enum": ["debug", "info", "warning", "error"]},
        "metrics": {"enum": [each.value for each in Metrics]},
        "resources": {"type": ["object", "null"]},
        "podLabels": texts,
        "podAnnotations": texts,
        **{name: pods[name] for name in ("nodeSelector", "tolerations", "affinity")},
        "topologySpreadConstraints": pods["topologySpreadConstraints"],
        "priorityClassName": text,
        "extraEnv": pods["env"],
        "extraArgs": {"type": "array", "items": text},
        "podDisruptionBudget": _closed_object({"maxUnavailable": number, "minAvailable": number}),
    }
    pull = {"enum": ["Always", "IfNotPresent", "Never"]}
    properties = {
        "image": _closed_object({"repository": text, "tag": text, "digest": text, "pullPolicy": pull}),
        "imagePullSecrets": pods["imagePullSecrets"],
        "commonLabels": texts,
        "operator": _closed_object(operator_values),
        "serviceAccount": _closed_object({"annotations": texts}),
        "service": _closed_object({"annotations": texts}),
        "networkPolicy": _closed_object(switch),
        "serviceMonitor": _closed_object({**switch, "labels": texts}),
        "prometheusRule": _closed_object({**switch, "labels": texts}),
        "quintet": _closed_object({"create": {"type": "boolean"}, "spec": spec}),
        "global": {"type": "object"},
    }
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_closed_object(properties)}


def _closed_object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _plain_schema(schema: Any) -> Any:
    """Return the plain JSON Schema of a CRD schema, without unknown fields and Kubernetes extensions."""
    if isinstance(schema, list):
        return [_plain_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: value for name, value in schema.items() if not name.startswith("x-kubernetes-")}
    if "properties" in made:
        made["properties"] = {name: _plain_schema(each) for name, each in made["properties"].items()}
        made["additionalProperties"] = False
    for name in ("items", "additionalProperties"):
        if name in made:
            made[name] = _plain_schema(made[name])
    return made


def _templates(components: Sequence[Component]) -> dict[Path, str]:
    bodies = list(_objects(components))
    return {
        Path("templates") / name: HEADER
        + "".join(
            "---\n" + as_template(body, _CONDITIONS.get(body["kind"], ""))
            for body in bodies
            if body["kind"] in kinds
        )
        for name, kinds in _FILES.items()
    }


def _objects(components: Sequence[Component]) -> Iterator[JsonObject]:
    """Yield the objects of the templates, with expressions for what values change."""
    process = operator_process(_FLAVOUR, _LEVEL, _METRICS)
    changed: dict[str, Callable[[JsonObject], JsonObject]] = {
        "Deployment": _deployment,
        "PodDisruptionBudget": _budget,
        "ServiceAccount": lambda body: _annotate(body, ".Values.serviceAccount.annotations"),
        "Service": lambda body: _annotate(body, ".Values.service.annotations"),
        "ServiceMonitor": lambda body: _label(body, ".Values.serviceMonitor.labels"),
        "PrometheusRule": lambda body: _label(body, ".Values.prometheusRule.labels"),
    }
    monitoring = [processes.service_monitor(process), eventing_monitor(process), prometheus_rule(process)]
    rest = [body for body in operator(components, _FLAVOUR) if body["kind"] not in _ELSEWHERE]
    own = [processes.metrics_service(process), processes.deployment(process)]
    for body in (*rest, *own, *monitoring):
        labelled = _with_standard_labels(body)
        yield changed[body["kind"]](labelled) if body["kind"] in changed else labelled


def _with_standard_labels(body: JsonObject) -> JsonObject:
    metadata = body["metadata"]
    own = {name: value for name, value in metadata["labels"].items() if name != _PART_OF}
    labels = {**own, **merge('include "quintet.labels" .')}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _with_metadata(body: JsonObject, **fields: Any) -> JsonObject:
    return {**body, "metadata": {**body["metadata"], **fields}}


def _annotate(body: JsonObject, value: str) -> JsonObject:
    return _with_metadata(body, annotations=optional(value))


def _label(body: JsonObject, value: str) -> JsonObject:
    return _with_metadata(body, labels={**body["metadata"]["labels"], **merge(value)})


def _budget(body: JsonObject) -> JsonObject:
    limit = merge('include "quintet.disruptionBudget" .')
    return {**body, "spec": {**limit, "selector": body["spec"]["selector"]}}


def _deployment(body: JsonObject) -> JsonObject:
    spec, template = body["spec"], body["spec"]["template"]
    (container,) = template["spec"]["containers"]
    pod = {
        **template["spec"],
        "containers": [
            {
                **container,
                "imagePullPolicy": "{{ .Values.image.pullPolicy }}",
                "args": [*container["args"], items(".Values.operator.extraArgs")],
                "env": [*container["env"], items(".Values.operator.extraEnv")],
                "resources": optional(".Values.operator.resources"),
            }
        ],
        "imagePullSecrets": optional(".Values.imagePullSecrets"),
        **{name: optional(f".Values.operator.{name}") for name in _SCHEDULING},
    }
    metadata = {
        "labels": {**template["metadata"]["labels"], **merge(".Values.operator.podLabels")},
        "annotations": optional(".Values.operator.podAnnotations"),
    }
    return {
        **body,
        "spec": {
            **spec,
            "replicas": scalar(".Values.operator.replicas"),
            "template": {"metadata": metadata, "spec": pod},
        },
    }


def _readme() -> str:
    """Return the page about the values, from the comments in values.yaml."""
    text = (_SOURCES / "values.yaml").read_text(encoding="utf-8")
    rows = [f"| `{name}` | {default} | {about} |" for name, default, about in _documented_values(text)]
    return _README.format(rows="\n".join(rows), home=HOME)


def _documented_values(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield path, default and description of each value with a comment that begins with `# --`."""
    path: list[str] = []
    comment = ""
    for line in text.splitlines():
        if (found := re.match(r" *# (-- )?(.*)", line)) is not None:
            comment = found[2] if found[1] else f"{comment} {found[2]}" if comment else ""
        elif (key := re.match(r"( *)([A-Za-z]+):", line)) is not None:
            path[len(key[1]) // 2 :] = [key[2]]
            if comment:
                yield ".".join(path), f"`{json.dumps(_value_at(path))}`", comment
            comment = ""


def _value_at(path: Sequence[str]) -> Any:
    found: Any = values()
    for name in path:
        found = found[name]
    return found
