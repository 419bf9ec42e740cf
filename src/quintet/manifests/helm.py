"""The Helm chart of the suite operator.

The objects are generated with placeholders for the values, which template expressions then replace: with
default values the chart installs exactly the same objects as the other ways to install. The CRD of Quintet
is in `crds/`, which Helm never deletes; the operator upgrades it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from quintet import __version__
from quintet.apis.meta import JsonObject
from quintet.apis.suite import QUINTET as KIND
from quintet.apis.suite.types import Metrics
from quintet.components import Component
from quintet.manifests import process as processes
from quintet.manifests.crd import custom_resource_definition, object_schema
from quintet.manifests.installation import QUINTET, Flavour
from quintet.manifests.monitoring import eventing_monitor, prometheus_rule
from quintet.manifests.operator import operator, operator_process
from quintet.manifests.process import IMAGE, RESOURCES, MetricsMode
from quintet.manifests.text import HEADER, as_yaml

CHART = Path("charts/quintet")
REPOSITORY = IMAGE.rpartition(":")[0]
OLDEST_KUBERNETES = "1.32.0"

_NAMESPACE, _IMAGE, _RESOURCES, _LEVEL = "MARKNAMESPACE", "MARKIMAGE", "MARKRESOURCES", "MARKLEVEL"
_METRICS = MetricsMode("MARKMETRICS", "MARKMETRICSPORT")
_REPLICAS = 918273645
_WITH_PLACEHOLDERS: Flavour = replace(QUINTET, namespace=_NAMESPACE, image=_IMAGE)
_EXPRESSIONS: Mapping[str, str] = {
    _NAMESPACE: "{{ .Release.Namespace }}",
    _IMAGE: '{{ include "quintet.image" . }}',
    str(_REPLICAS): "{{ .Values.operator.replicas }}",
    _RESOURCES: "{{ toJson .Values.operator.resources }}",
    _LEVEL: "{{ .Values.operator.logLevel }}",
    # The longer mark first: it contains the other.
    _METRICS.port: '{{ ternary "metrics" "https-metrics" (eq .Values.operator.metrics "Plain") }}',
    _METRICS.option: "{{ lower .Values.operator.metrics }}",
}
_OPTIONAL = {
    "NetworkPolicy": ".Values.networkPolicy.enabled",
    "ServiceMonitor": ".Values.serviceMonitor.enabled",
    "PrometheusRule": ".Values.prometheusRule.enabled",
}

_IMAGE_TEMPLATE = """\
{{- define "quintet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}
"""
_QUINTET_TEMPLATE = """\
{{- if .Values.quintet.create }}
apiVersion: quintet.dev/v1alpha1
kind: Quintet
metadata:
  name: quintet
spec: {{ toJson .Values.quintet.spec }}
{{- end }}
"""
_TEST_TEMPLATE = """\
apiVersion: v1
kind: Pod
metadata:
  name: quintet-test
  namespace: {{ .Release.Namespace }}
  labels:
    app.kubernetes.io/part-of: quintet
  annotations:
    helm.sh/hook: test
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  restartPolicy: Never
  serviceAccountName: quintet-operator
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: wait
      image: {{ include "quintet.image" . }}
      imagePullPolicy: IfNotPresent
      args: [wait, --timeout=240]
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
"""
_NOTES = """\
Quintet {{ .Chart.AppVersion }} is being installed in {{ .Release.Namespace }}.

Status:            kubectl get quintets quintet -o wide
Wait until ready:  helm test {{ .Release.Name }} --namespace {{ .Release.Namespace }}
List all objects:  kubectl get quintet --all-namespaces
{{- if not .Values.quintet.create }}

No controller runs yet: create an object of the kind Quintet named `quintet` to select them.
{{- end }}

`helm uninstall` removes the operator and its controllers. CRDs and the objects of users stay.
"""


def chart(components: Sequence[Component]) -> dict[Path, str]:
    """Return the files of the chart."""
    return {
        CHART / "Chart.yaml": as_yaml(_chart()),
        CHART / "values.yaml": as_yaml(values()),
        CHART / "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        CHART / "crds" / f"{KIND.resource.qualified}.yaml": as_yaml(custom_resource_definition(KIND)),
        CHART / "templates" / "_image.tpl": _comment(_IMAGE_TEMPLATE),
        CHART / "templates" / "operator.yaml": _operator_template(components),
        CHART / "templates" / "quintet.yaml": HEADER + _QUINTET_TEMPLATE,
        CHART / "templates" / "tests" / "wait.yaml": HEADER + _TEST_TEMPLATE,
        CHART / "templates" / "NOTES.txt": _NOTES,
    }


def _comment(template: str) -> str:
    return f"{{{{/* {HEADER.removeprefix('# ').strip()} */}}}}\n{template}"


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
        "annotations": {
            "artifacthub.io/license": "Apache-2.0",
            "artifacthub.io/operator": "true",
            "artifacthub.io/operatorCapabilities": "Seamless Upgrades",
        },
    }


def values() -> JsonObject:
    """Return the default values."""
    return {
        "image": {"repository": REPOSITORY, "tag": "", "digest": ""},
        "operator": {
            "replicas": 2,
            "logLevel": "info",
            "metrics": "Secure",
            "resources": {name: dict(each) for name, each in RESOURCES.items()},
        },
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {"enabled": False},
        "prometheusRule": {"enabled": False},
        "quintet": {"create": True, "spec": {}},
    }


def values_schema() -> JsonObject:
    """Return the JSON Schema of the values; that of `quintet.spec` comes from the CRD."""
    text, switch = {"type": "string"}, {"type": "object", "properties": {"enabled": {"type": "boolean"}}}
    level = {"enum": ["debug", "info", "warning", "error"]}
    spec = _plain_schema(object_schema(KIND)["properties"]["spec"])
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **_closed_object(
            {
                "image": _closed_object({"repository": text, "tag": text, "digest": text}),
                "operator": _closed_object(
                    {
                        "replicas": {"type": "integer", "minimum": 1, "maximum": 5},
                        "logLevel": level,
                        "metrics": {"enum": [each.value for each in Metrics]},
                        "resources": {"type": "object"},
                    }
                ),
                "networkPolicy": switch,
                "serviceMonitor": switch,
                "prometheusRule": switch,
                "quintet": _closed_object({"create": {"type": "boolean"}, "spec": spec}),
                "global": {"type": "object"},
            }
        ),
    }


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


def _operator_template(components: Sequence[Component]) -> str:
    process = operator_process(_WITH_PLACEHOLDERS, _LEVEL, _METRICS)
    bodies = [
        body
        for body in operator(components, _WITH_PLACEHOLDERS)
        if body["kind"] not in ("Namespace", "CustomResourceDefinition", "Service", "Deployment")
    ]
    deployment = processes.deployment(replace(process, replicas=_REPLICAS))
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = _RESOURCES
    monitoring = [processes.service_monitor(process), eventing_monitor(process), prometheus_rule(process)]
    services = [processes.metrics_service(process)]
    parts = [_document(body) for body in (*bodies, *services, deployment, *monitoring)]
    return HEADER + "".join(parts)


def _document(body: JsonObject) -> str:
    # Escape the template expressions of Prometheus, which Helm must not evaluate.
    text = "---\n" + as_yaml(body).removeprefix(HEADER).replace("{{", '{{ "{{" }}')
    for mark, expression in _EXPRESSIONS.items():
        text = text.replace(mark, expression)
    if (condition := _OPTIONAL.get(body["kind"])) is not None:
        return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    return text
