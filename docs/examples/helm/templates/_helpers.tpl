{{- define "nereid.labels" -}}
app.kubernetes.io/name: nereid
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "nereid.name" -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- define "nereid.several" -}}
{{ if .Values.autoscaling.enabled }}{{ gt (int .Values.autoscaling.maxReplicas) 1 }}{{ else }}{{ gt (int .Values.replicas) 1 }}{{ end }}
{{- end }}
