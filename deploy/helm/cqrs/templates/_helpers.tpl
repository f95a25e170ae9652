{{/* The release's name, in which "cqrs" appears once. */}}
{{- define "cqrs.name" -}}
{{- if contains "cqrs" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-cqrs" (.Release.Name | trunc 35 | trimSuffix "-") }}{{ end }}
{{- end }}

{{/* A part's name: lower-case letters, digits and -. Takes (root, part). */}}
{{- define "cqrs.part" -}}
{{ include "cqrs.name" (index . 0) }}-{{ index . 1 | replace "_" "-" }}
{{- end }}

{{/* What tells the pods of a part. Takes (root, component). */}}
{{- define "cqrs.selector" -}}
app.kubernetes.io/name: cqrs
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "cqrs.labels" -}}
{{ include "cqrs.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ (index . 0).Chart.Name }}-{{ (index . 0).Chart.Version }}
{{- end }}

{{- define "cqrs.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The Secret with client.properties; empty without. */}}
{{- define "cqrs.clientSecret" -}}
{{- if .Values.kafka.existingSecret }}{{ .Values.kafka.existingSecret }}{{ else if .Values.kafka.clientProperties }}{{ include "cqrs.name" . }}-client{{ end }}
{{- end }}

{{- define "cqrs.onKubernetes" -}}
{{- if hasPrefix "k8s://" .Values.run.spark.master }}yes{{ end }}
{{- end }}
