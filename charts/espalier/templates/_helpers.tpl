{{/* Names are fixed, because a cluster has one installation, in one namespace, and the operator uses these names. */}}
{{- define "espalier.labels" -}}
app.kubernetes.io/name: espalier
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "espalier.selector" -}}
app.kubernetes.io/name: espalier
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "espalier.image" -}}
{{ required "image.repository is required: where you pushed the image `espalier` that `make images` built" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "espalier.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "espalier.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Fields of every pod of the chart. */}}
{{- define "espalier.podDefaults" -}}
securityContext:
  {{- include "espalier.podSecurityContext" . | nindent 2 }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Prefers different nodes and zones for replicas; a single node or zone is enough. */}}
{{- define "espalier.spread" -}}
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "espalier.selector" $.component | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "espalier.apiNames" -}}
dnsNames:
  - espalier-api.espalier-system.svc
  - espalier-api.espalier-system.svc.cluster.local
  - espalier-api.espalier-system
  - espalier-api
  {{- range .Values.api.tls.dnsNames }}
  - {{ . | quote }}
  {{- end }}
ipAddresses:
  {{- toYaml .Values.api.tls.ipAddresses | nindent 2 }}
{{- end }}

{{/* Every name by which clients connect to a database: the gateway's certificate for refused clients contains them. */}}
{{- define "espalier.gatewayNames" -}}
{{- $names := list "espalier-gateway.espalier-system.svc" -}}
{{- $addresses := .Values.gateway.tls.ipAddresses -}}
{{- range .Values.regions -}}
  {{- $names = append $names (printf "*.%s" .domain) -}}
  {{- with .gateway -}}
    {{- with .host -}}
      {{- if regexMatch "^[0-9.]+$|:" . -}}{{- $addresses = append $addresses . -}}{{- else -}}{{- $names = append $names . -}}{{- end -}}
    {{- end -}}
    {{- with .externalIpAddress -}}{{- $addresses = append $addresses . -}}{{- end -}}
  {{- end -}}
{{- end -}}
dnsNames:
  {{- toYaml (concat $names .Values.gateway.tls.dnsNames | uniq) | nindent 2 }}
ipAddresses:
  {{- toYaml ($addresses | uniq) | nindent 2 }}
{{- end }}

{{/* A UUID that is the same at every rendering: version 8 (RFC 9562, section 5.8) over the size's name and version. */}}
{{- define "espalier.sizeId" -}}
{{- $hex := sha256sum (printf "size/%s-v%d" .name (int .version)) -}}
{{ substr 0 8 $hex }}-{{ substr 8 12 $hex }}-8{{ substr 13 16 $hex }}-8{{ substr 17 20 $hex }}-{{ substr 20 32 $hex }}
{{- end }}

{{/* Rules that values.schema.json cannot express. */}}
{{- define "espalier.validate" -}}
{{- if ne .Release.Namespace "espalier-system" -}}
{{- fail (printf "Espalier requires the namespace espalier-system: install it with --namespace espalier-system, not %s" .Release.Namespace) -}}
{{- end -}}
{{- $auth := .Values.api.authentication -}}
{{- $ways := compact (list $auth.jwksUrl $auth.publicKey $auth.sharedSecret.existingSecret) -}}
{{- if ne (len $ways) 1 -}}
{{- fail "api.authentication: exactly one of jwksUrl, publicKey and sharedSecret.existingSecret must be given" -}}
{{- end -}}
{{- if not .Values.postgres.images -}}
{{- fail "postgres.images: at least one version must have an image, for example --set-string postgres.images.18=registry.example.com/espalier-postgres:18" -}}
{{- end -}}
{{- $first := int .Values.gateway.ports.first -}}
{{- $last := int .Values.gateway.ports.last -}}
{{- if gt $first $last -}}
{{- fail "gateway.ports: first must not be above last" -}}
{{- end -}}
{{- if gt (sub $last $first) 4999 -}}
{{- fail "gateway.ports: at most 5000 ports" -}}
{{- end -}}
{{- if and (eq .Values.gateway.service.type "NodePort") (or (lt $first 30000) (gt $last 32767)) -}}
{{- fail "gateway.ports: with gateway.service.type NodePort the ports must be within 30000 to 32767" -}}
{{- end -}}
{{- $api := .Values.api.service -}}
{{- if and (eq .Values.gateway.service.type "NodePort") (eq $api.type "NodePort") $api.nodePort -}}
{{- if and (ge (int $api.nodePort) $first) (le (int $api.nodePort) $last) -}}
{{- fail "api.service.nodePort: it is one of gateway.ports; choose one outside of that range" -}}
{{- end -}}
{{- end -}}
{{- $https := .Values.gateway.https -}}
{{- if and (ge (int $https.port) $first) (le (int $https.port) $last) -}}
{{- fail "gateway.https.port: it is one of gateway.ports; choose one outside of that range" -}}
{{- end -}}
{{- if and (eq .Values.gateway.service.type "NodePort") (ge (int $https.nodePort) $first) (le (int $https.nodePort) $last) -}}
{{- fail "gateway.https.nodePort: it is one of gateway.ports; choose one outside of that range" -}}
{{- end -}}
{{- if and (eq $api.type "NodePort") $api.nodePort (eq (int $api.nodePort) (int $https.nodePort)) -}}
{{- fail "gateway.https.nodePort: the API uses this port; choose another port" -}}
{{- end -}}
{{- range list 8080 8405 -}}
{{- if and (ge . $first) (le . $last) -}}
{{- fail (printf "gateway.ports: %d is reserved for the gateway" .) -}}
{{- end -}}
{{- end -}}
{{- if .Values.archive.enabled -}}
{{- if not .Values.archive.keySecret.name -}}
{{- fail "archive.keySecret.name is required with archive.enabled: a Secret with the keys of the archive (docs/archive.md)" -}}
{{- end -}}
{{- if eq (empty .Values.archive.store.url) (empty .Values.archive.store.claim) -}}
{{- fail "archive.store: exactly one of url and claim must be given with archive.enabled" -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.source "cert-manager") (not .Values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name is required with tls.source cert-manager" -}}
{{- end -}}
{{- end }}

{{- define "espalier.protection" }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [{{ .group | quote }}]
        apiVersions: ["*"]
        resources: [{{ .resource }}]
        operations: [DELETE]
  matchConditions:
    - name: protected
      expression: >-
        {{ .condition }}
  validations:
    - expression: >-
        {{ .allowed }}
      message: >-
        {{ .message }}
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
{{- end }}

{{- define "espalier.toApiServer" -}}
- to:
    {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{- define "espalier.toPostgres" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {espalier.dev/component: postgres}
  ports:
    - {protocol: TCP, port: 5432}
{{- end }}

{{/* The HTTPS port in the gateway's pod. Databases can have all ports except 8080 and 8405, so no range contains both of these. */}}
{{- define "espalier.httpsPort" -}}
{{- if and (le (int .Values.gateway.ports.first) 8443) (ge (int .Values.gateway.ports.last) 8443) }}8404{{ else }}8443{{ end -}}
{{- end }}

{{/* The default HTTPS port of a region's services. With NodePort, the node's port if it is known. */}}
{{- define "espalier.regionHttps" -}}
{{- $https := .Values.gateway.https -}}
{{- if ne .Values.gateway.service.type "NodePort" }}{{ toJson (dict "port" (int $https.port)) }}
{{- else if $https.nodePort }}{{ toJson (dict "port" (int $https.nodePort)) }}
{{- end -}}
{{- end }}

{{/* The servers of mcp and its bridge, rest, and rag. */}}
{{- define "espalier.toServices" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {espalier.dev/component: service}
  ports:
    - {protocol: TCP, port: 8080}
    - {protocol: TCP, port: 8090}
    - {protocol: TCP, port: 3000}
    - {protocol: TCP, port: 8081}
{{- end }}

{{- define "espalier.toSamples" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {espalier.dev/component: service}
  ports:
    - {protocol: TCP, port: 8433}
    - {protocol: TCP, port: 8434}
{{- end }}

{{- define "espalier.toAgents" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {espalier.dev/component: postgres}
  ports:
    - {protocol: TCP, port: 8432}
{{- end }}

{{/* The port of a URL. */}}
{{- define "espalier.urlPort" -}}
{{- $url := urlParse . -}}
{{ $url.host | regexFind ":[0-9]+$" | trimPrefix ":" | default (ternary "80" "443" (eq $url.scheme "http")) }}
{{- end }}

{{- define "espalier.toNames" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {k8s-app: kube-dns}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}

{{- define "espalier.bootstrapHook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
helm.sh/hook-weight: {{ . | quote }}
{{- end }}

{{- /* Name, version and shape of every size, as JSON. */}}
{{- define "espalier.wantedSizes" -}}
{{- $sizes := list }}
{{- range .Values.sizes }}
{{- $sizes = append $sizes (dict "name" .name "version" (int .version) "shape" .shape) }}
{{- end }}
{{- toJson $sizes }}
{{- end }}
