{{/* The image of the operator and of the controllers. */}}
{{- define "quintet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The standard labels of the chart's objects, besides the name, which differs. */}}
{{- define "quintet.labels" -}}
app.kubernetes.io/part-of: quintet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The name of the operator's port for metrics. */}}
{{- define "quintet.metricsPort" -}}
{{- ternary "metrics" "https-metrics" (eq .Values.operator.metrics "Plain") -}}
{{- end -}}

{{/* The limit of the operator's PodDisruptionBudget. */}}
{{- define "quintet.disruptionBudget" -}}
{{- toYaml (.Values.operator.podDisruptionBudget | default (dict "maxUnavailable" 1)) -}}
{{- end -}}

{{/* The spec of the Quintet: pull policy and pull Secrets of the chart apply unless it has its own. */}}
{{- define "quintet.spec" -}}
{{- $spec := deepCopy (.Values.quintet.spec | default dict) -}}
{{- $pods := deepCopy ($spec.pods | default dict) -}}
{{- if and .Values.imagePullSecrets (not (hasKey $pods "imagePullSecrets")) -}}
{{- $_ := set $pods "imagePullSecrets" .Values.imagePullSecrets -}}
{{- end -}}
{{- if and (ne .Values.image.pullPolicy "IfNotPresent") (not (hasKey $pods "imagePullPolicy")) -}}
{{- $_ := set $pods "imagePullPolicy" .Values.image.pullPolicy -}}
{{- end -}}
{{- if $pods -}}
{{- $_ := set $spec "pods" $pods -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}
