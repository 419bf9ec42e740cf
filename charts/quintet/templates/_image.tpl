{{/* Generated from src/quintet by `make generate`. Changes here are overwritten. */}}
{{- define "quintet.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}
