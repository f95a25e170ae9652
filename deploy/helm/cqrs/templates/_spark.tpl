{{/* The flags of Spark: the user's properties, and where executors are pods what these need. */}}
{{- define "cqrs.sparkConf" -}}
{{- range $name, $value := .Values.run.spark.conf }}
- {{ printf "--conf=%s=%s" $name (toString $value) | quote }}
{{- end }}
{{- if include "cqrs.onKubernetes" . }}
{{- $name := include "cqrs.part" (list . "run") }}
- --conf=spark.executor.instances={{ .Values.run.spark.executors }}
- --conf=spark.kubernetes.namespace={{ .Release.Namespace }}
- --conf=spark.kubernetes.container.image={{ include "cqrs.image" . }}
- --conf=spark.kubernetes.container.image.pullPolicy={{ .Values.image.pullPolicy }}
- --conf=spark.kubernetes.driver.pod.name=$(POD_NAME)
- --conf=spark.kubernetes.executor.podNamePrefix=$(POD_NAME)
- --conf=spark.kubernetes.executor.podTemplateFile=/etc/cqrs-executor/pod.yaml
- --conf=spark.kubernetes.executor.podTemplateContainerName=executor
- --conf=spark.kubernetes.executor.terminationGracePeriodSeconds=60s
- --conf=spark.driver.host=$(POD_NAME).{{ $name }}.{{ .Release.Namespace }}.svc
- --conf=spark.driver.bindAddress=0.0.0.0
- --conf=spark.driver.port=7078
- --conf=spark.driver.blockManager.port=7079
- --conf=spark.blockManager.port=7079
- --conf=spark.cqrs.reports.port=7080
{{- end }}
{{- end }}
