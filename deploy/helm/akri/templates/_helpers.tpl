{{/* Labels of an object. Arguments: root, name, component. A Configuration belongs to no program: it has only the first label. */}}
{{- define "akri.labels" -}}
{{- if .component -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/component: {{ .component }}
{{ end -}}
app.kubernetes.io/part-of: akri
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* image and imagePullPolicy. Arguments: root, image. Parts that image lacks come from the image of all programs. */}}
{{- define "akri.image" -}}
{{- $repository := .image.repository | default .root.Values.image.repository -}}
{{- if regexMatch "^ghcr\\.io/(project-akri|deislabs)/" $repository -}}
{{- fail (printf "%s is an image of the existing system, which has other programs in it; build that of this one: docs/operators.md" $repository) -}}
{{- end -}}
image: {{ printf "%s:%s" $repository (.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) | toJson }}
imagePullPolicy: {{ .image.pullPolicy | default .root.Values.image.pullPolicy }}
{{- end }}

{{/* The group of handlers in containers of their own. The agent opens its directory to this group. */}}
{{- define "akri.handlersGroup" -}}65520{{- end }}

{{/* Probes on the port named metrics. */}}
{{- define "akri.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "akri.resources" -}}
requests:
  cpu: {{ toJson .cpuRequest }}
  memory: {{ toJson .memoryRequest }}
limits:
  memory: {{ toJson .memoryLimit }}
{{- end }}

{{/*
NODE_OPTIONS. Arguments: path, limit, beside (MiB). Node.js does not see the memory limit. The heap gets
the limit less `beside`, which the program needs outside of the heap, but at most four fifths of the limit.
*/}}
{{- define "akri.nodeOptions" -}}
{{- $unit := ternary 1024 1 (hasSuffix "Gi" .limit) -}}
{{- $limit := mul (regexFind "^[0-9]+" .limit) $unit -}}
{{- $heap := min (sub $limit .beside) (div (mul $limit 4) 5) -}}
{{- if lt $heap 64 -}}
{{- fail (printf "%s: %s is too little: Node.js needs %dMi at least" .path .limit (add .beside 64)) -}}
{{- end -}}
--max-semi-space-size=2 --max-old-space-size={{ $heap }}
{{- end }}

{{- define "akri.nodeSelector" -}}
{{- mergeOverwrite (dict "kubernetes.io/os" "linux") . | toYaml -}}
{{- end }}

{{/* A value as the text of a variable. Numbers of values files are floats, which Helm would write as 1e+06. */}}
{{- define "akri.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}

{{- define "akri.env" -}}
{{- range $name, $value := . }}
- name: {{ toJson $name }}
  value: {{ include "akri.text" $value | toJson }}
{{- end }}
{{- end }}

{{/* The handlers that the agent loads. handlers.json is a copy of the repository's handlers/built-in.json. */}}
{{- define "akri.handlers" -}}
{{- $handlers := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers -}}
{{- $enabled := or .runsInAgent $.Values.agent.full -}}
{{- if .runsInAgent }}{{ $enabled = (index $.Values .name).discovery.enabled }}{{ end -}}
{{- if eq .name "debugEcho" }}{{ $enabled = and $enabled $.Values.agent.allowDebugEcho }}{{ end -}}
{{- if $enabled }}{{ $handlers = append $handlers .package }}{{ end -}}
{{- end -}}
{{- concat $handlers (.Values.agent.handlers | default list) | join "," -}}
{{- end }}

{{/* The handlers whose details the webhook checks: all. */}}
{{- define "akri.allHandlers" -}}
{{- $handlers := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers }}{{ $handlers = append $handlers .package }}{{ end -}}
{{- concat $handlers (.Values.agent.handlers | default list) | join "," -}}
{{- end }}

{{/* Whether there is a Configuration in this release. */}}
{{- define "akri.anyConfiguration" -}}
{{- range list .Values.udev .Values.onvif .Values.opcua .Values.debugEcho }}{{ if .configuration.enabled }}yes{{ end }}{{ end -}}
{{- end }}
