{{/* What all pods have in common: nobody special, a root that cannot be written, and settings from one place. */}}
{{- define "cqrs.podAnnotations" -}}
checksum/settings: {{ include (print .Template.BasePath "/settings.yaml") . | sha256sum }}
{{- end }}

{{- define "cqrs.podSecurity" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: 60
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "cqrs.container" -}}
image: {{ include "cqrs.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
envFrom:
  - configMapRef: {name: {{ include "cqrs.name" . }}}
{{- end }}

{{- define "cqrs.env" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "cqrs.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: work, mountPath: /app/.cqrs}
{{- if include "cqrs.clientSecret" . }}
- {name: client, mountPath: /etc/cqrs, readOnly: true}
{{- end }}
{{- end }}

{{- define "cqrs.volumes" -}}
- {name: tmp, emptyDir: {}}
- {name: work, emptyDir: {}}
{{- with include "cqrs.clientSecret" . }}
- {name: client, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{/* The headless Service by which pods have names, and Prometheus finds their metrics. Takes (root, part, component). */}}
{{- define "cqrs.metrics" -}}
{{- $root := index . 0 -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "cqrs.part" (list $root (index . 1)) }}
  labels: {{ include "cqrs.labels" (list $root (index . 2)) | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{ include "cqrs.selector" (list $root (index . 2)) | nindent 4 }}
  ports:
    - {name: metrics, port: 9500, targetPort: metrics}
{{- end }}

{{/* Probes of what serves /healthz and /readyz. Takes (path of readiness, port, header Host). */}}
{{- define "cqrs.probes" -}}
{{- $headers := list (dict "name" "Host" "value" "localhost") | toJson }}
startupProbe:
  httpGet: {path: /healthz, port: {{ index . 1 }}, httpHeaders: {{ $headers }}}
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ index . 1 }}, httpHeaders: {{ $headers }}}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: {{ index . 0 | quote }}, port: {{ index . 1 }}, httpHeaders: {{ $headers }}}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}
