{{/* Values that contradict each other end here, each with a sentence that says what to do. */}}
{{- define "cqrs.check" -}}
{{- $kafka := .Values.kafka }}
{{- $spark := .Values.run.spark }}
{{- if not $kafka.bootstrapServers }}
  {{- fail "\n\nkafka.bootstrapServers is empty: name the brokers, host:port with commas between." }}
{{- end }}
{{- if and $kafka.clientProperties $kafka.existingSecret }}
  {{- fail "\n\nkafka.clientProperties and kafka.existingSecret both say how to log in: give one of them." }}
{{- end }}
{{- if and (eq (toString .Values.settings.store) "memory") .Values.run.shards.size }}
  {{- fail "\n\nrun.shards.size asks for a volume, but settings.store=memory keeps no shards: leave one of them out." }}
{{- end }}
{{- if and (eq (toString .Values.settings.store) "memory") .Values.settings.checkpoint_location }}
  {{- fail "\n\nsettings.checkpoint_location copies shards, but settings.store=memory keeps none: leave one of them out." }}
{{- end }}
{{- if and .Values.run.shards.storageClassName (not .Values.run.shards.size) }}
  {{- fail "\n\nrun.shards.storageClassName is for a volume: say its run.shards.size, too." }}
{{- end }}
{{- if and $spark.executors (not (hasPrefix "k8s://" $spark.master)) }}
  {{- fail (printf "\n\nrun.spark.executors are pods, but run.spark.master is %s: set it to k8s://https://kubernetes.default.svc." $spark.master) }}
{{- end }}
{{- if and (hasPrefix "k8s://" $spark.master) (not $spark.executors) }}
  {{- fail "\n\nrun.spark.master is on Kubernetes, but run.spark.executors is 0: nobody would decide." }}
{{- end }}
{{- if and $spark.executors .Values.run.shards.size }}
  {{- fail "\n\nrun.shards.size is a volume of the driver, but executors keep the shards: use settings.checkpoint_location in its place." }}
{{- end }}
{{- if and .Values.run.enabled .Values.run.processes .Values.processes }}
  {{- fail (printf "\n\n%s would run in cqrs run, too, and each would take it over from the other: set run.processes=false." (join ", " .Values.processes)) }}
{{- end }}
{{- if and .Values.gateway.enabled (not .Values.gateway.tokenSecret) }}
  {{- fail "\n\ngateway.tokenSecret is empty: what others can reach needs a token; make a Secret with the key tokens." }}
{{- end }}
{{- range .Values.projections }}
  {{- if or (hasPrefix "sqlite:" .to) (hasPrefix "duckdb:" .to) }}
    {{- fail (printf "\n\nprojection %s writes to %s, a file that ends with its pod: name a database server." .name .to) }}
  {{- end }}
{{- end }}
{{- end }}
