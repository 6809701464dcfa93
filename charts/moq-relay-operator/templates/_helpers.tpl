{{/* Labels of every object; helm adds its own on installing. */}}
{{- define "labels" -}}
app.kubernetes.io/name: moq-relay-operator
app.kubernetes.io/part-of: moq-relay-operator
{{- end }}

{{/* The operator's image. */}}
{{- define "managerImage" -}}
{{- .Values.images.manager | default (printf "%s/moq-relay-operator:%s" .Values.imageRegistry (include "imageTag" .)) }}
{{- end }}

{{/* The image of relays whose spec names none. */}}
{{- define "relayImage" -}}
{{- .Values.images.relay | default (printf "%s/moq-relay:%s" .Values.imageRegistry (include "imageTag" .)) }}
{{- end }}

{{- define "imageTag" -}}
{{- .Values.imageTag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}
