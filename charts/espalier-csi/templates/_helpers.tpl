{{- define "espalier-csi.labels" -}}
app.kubernetes.io/name: espalier-csi
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "espalier-csi.selector" -}}
app.kubernetes.io/name: espalier-csi
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* A sidecar connects to the driver through a socket in a directory that only root can enter. */}}
{{- define "espalier-csi.sidecar" -}}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsUser: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
resources:
  requests:
    cpu: 5m
    memory: 24Mi
  limits:
    memory: 128Mi
volumeMounts:
  - name: socket
    mountPath: /csi
{{- end -}}
