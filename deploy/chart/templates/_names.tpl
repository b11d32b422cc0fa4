{{/* What all objects have: by part-of `causeway check` and `causeway uninstall` find an installation. */}}
{{- define "causeway.labels" -}}
app.kubernetes.io/name: causeway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: causeway
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
causeway.dev/installed-in: {{ .Release.Namespace }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Those of the operator's own objects. */}}
{{- define "causeway.operatorLabels" -}}
{{ include "causeway.labels" . }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "causeway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
