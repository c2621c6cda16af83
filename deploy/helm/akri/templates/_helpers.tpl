{{/* Labels of an object. Arguments: root, name, component. A Configuration belongs to no program: it has only the first label. */}}
{{- define "akri.labels" -}}
{{- if .component -}}
app.kubernetes.io/name: {{ toJson .name }}
app.kubernetes.io/component: {{ .component }}
{{ end -}}
app.kubernetes.io/part-of: akri
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
image and imagePullPolicy. Arguments: root, image. Parts that image lacks come from the image of all programs. A
digest names the content, whatever the tag; that of all programs is for their repository only.
*/}}
{{- define "akri.image" -}}
{{- $all := .root.Values.image -}}
{{- $repository := .image.repository | default $all.repository -}}
{{- $tag := .image.tag | default $all.tag | default .root.Chart.AppVersion -}}
{{- $digest := .image.digest | default (ternary $all.digest "" (not (or .image.repository .image.tag))) -}}
image: {{ printf "%s:%s%s" $repository $tag (ternary (printf "@%s" $digest) "" (not (empty $digest))) | toJson }}
imagePullPolicy: {{ .image.pullPolicy | default .root.Values.image.pullPolicy }}
{{- end }}

{{/* The group of handlers in containers of their own. The agent opens its directory to this group. */}}
{{- define "akri.handlersGroup" -}}65520{{- end }}

{{/* The port of the agent. 8080 is the default of prometheus.port, so it chooses nothing. */}}
{{- define "akri.agentPort" -}}
{{- $chosen := ternary "" .Values.prometheus.port (eq (toJson .Values.prometheus.port) "8080") -}}
{{- $hostNetwork := or .Values.agent.full .Values.agent.hostNetwork -}}
{{- .Values.agent.metricsPort | default $chosen | default (ternary 18080 8080 $hostNetwork) | toJson -}}
{{- end }}

{{/*
Probes. The arguments are the name of the port, and whether the Pod is in the network of its node.
There another program may have the port: the kubelet must not end ours because of its answers.
*/}}
{{- define "akri.probes" -}}
{{- if not .hostNetwork }}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ toJson .port }}
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
{{- end }}
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ toJson .port }}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "akri.resources" -}}
requests:
  cpu: {{ toJson .cpuRequest }}
  memory: {{ toJson .memoryRequest }}
limits:
  {{- with .cpuLimit }}
  cpu: {{ toJson . }}
  {{- end }}
  memory: {{ toJson .memoryLimit }}
{{- end }}

{{/* A quantity of Kubernetes as a number. */}}
{{- define "akri.amount" -}}
{{- $text := include "akri.text" . -}}
{{- $factors := dict "n" 1e-9 "u" 1e-6 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- if regexMatch "[eE][+-]?[0-9]+$" $text -}}
{{- float64 $text -}}
{{- else -}}
{{- mulf (regexFind "^[0-9.]+" $text) (regexFind "[A-Za-z]+$" $text | get $factors | default 1) -}}
{{- end -}}
{{- end }}

{{/*
The heap in MiB. Arguments: limit, beside (MiB). Node.js does not see the memory limit. The heap gets the
limit less `beside`, which the program needs outside of the heap, but at most four fifths of the limit.
*/}}
{{- define "akri.heap" -}}
{{- $limit := divf (include "akri.amount" .limit) 1048576 | floor | int64 -}}
{{- min (sub $limit .beside) (div (mul $limit 4) 5) -}}
{{- end }}

{{/* NODE_OPTIONS. Arguments: those of akri.heap. */}}
{{- define "akri.nodeOptions" -}}
--max-semi-space-size=2 --max-old-space-size={{ include "akri.heap" . }}
{{- end }}

{{/* The security context of a container: the chart's, and that of values. Arguments: chart, values. */}}
{{- define "akri.securityContext" -}}
{{- mergeOverwrite (deepCopy .chart) (deepCopy (.values | default dict)) | toYaml -}}
{{- end }}

{{- define "akri.isolated" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Not empty on OpenShift and OKD. `helm template` knows it by `--api-versions security.openshift.io/v1`. */}}
{{- define "akri.isOpenShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" }}yes{{ end -}}
{{- end }}

{{/*
On OpenShift, SELinux keeps the default type of containers from directories of the node and from the kubelet's
sockets. Pods that mount them have the type that may use both.
*/}}
{{- define "akri.seLinux" -}}
{{- if include "akri.isOpenShift" . -}}
seLinuxOptions:
  type: spc_t
{{- end -}}
{{- end }}

{{/* The update strategy of a DaemonSet. */}}
{{- define "akri.updateStrategy" -}}
{{- toYaml (. | default (dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" "10%"))) -}}
{{- end }}

{{/* Annotations of Pods. */}}
{{- define "akri.podAnnotations" -}}
{{- with . -}}
annotations:
  {{- range $name, $value := . }}
  {{ toJson $name }}: {{ include "akri.text" $value | toJson }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The tolerations of a program. The argument is its values. */}}
{{- define "akri.tolerations" -}}
{{- $tolerations := list -}}
{{- $planes := list "node-role.kubernetes.io/control-plane" "node-role.kubernetes.io/master" -}}
{{- $allowed := or .allowOnControlPlane .onlyOnControlPlane -}}
{{- $chosen := or $allowed (kindIs "bool" .allowOnControlPlane) -}}
{{- range .tolerations -}}
{{- if not (and $chosen (has .key $planes)) }}{{ $tolerations = append $tolerations . }}{{ end -}}
{{- end -}}
{{- if $allowed -}}
{{- range $planes }}{{ $tolerations = append $tolerations (dict "key" . "operator" "Exists" "effect" "NoSchedule") }}{{ end -}}
{{- end -}}
{{- toYaml $tolerations -}}
{{- end }}

{{/*
Which nodes a program can run on. Arguments: values, priority (the default class), affinity (whose fields those
of the values replace).
*/}}
{{- define "akri.placement" -}}
{{- with kindIs "string" .values.priorityClassName | ternary .values.priorityClassName .priority }}
priorityClassName: {{ toJson . }}
{{- end }}
nodeSelector:
  {{- include "akri.nodeSelector" (.values.nodeSelectors | default dict) | nindent 2 }}
{{- with include "akri.tolerations" .values }}
{{- if ne . "[]" }}
tolerations:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
{{- $affinity := mergeOverwrite (deepCopy (.affinity | default dict)) (deepCopy (.values.affinity | default dict)) }}
{{- if .values.onlyOnControlPlane }}
{{- $terms := list }}
{{- range list "node-role.kubernetes.io/control-plane" "node-role.kubernetes.io/master" }}
{{- $terms = append $terms (dict "matchExpressions" (list (dict "key" . "operator" "Exists"))) }}
{{- end }}
{{- $required := dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- $affinity = mergeOverwrite (deepCopy $affinity) (dict "nodeAffinity" $required) }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Nodes that can have devices: not virtual kubelets and Fargate. */}}
{{- define "akri.deviceNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - key: type
            operator: NotIn
            values: [virtual-kubelet]
          - key: liqo.io/type
            operator: NotIn
            values: [virtual-node]
          - key: eks.amazonaws.com/compute-type
            operator: NotIn
            values: [fargate]
{{- end }}

{{/* Replicas on different nodes, if possible. The argument is the name of the program. */}}
{{- define "akri.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {{ . }}
{{- end }}

{{/* Whether the roles are part of this release. */}}
{{- define "akri.rights" -}}
{{- if .Values.rbac.enabled }}yes{{ end -}}
{{- end }}

{{/* Whether the webhook is part of this release. Without rights, a release of Configurations alone has none. */}}
{{- define "akri.webhook" -}}
{{- $alone := not (or .Values.agent.enabled .Values.controller.enabled (include "akri.rights" .)) -}}
{{- if and .Values.webhookConfiguration.enabled (not $alone) }}yes{{ end -}}
{{- end }}

{{- define "akri.nodeSelector" -}}
{{- $labels := dict "kubernetes.io/os" "linux" -}}
{{- range $label, $value := . }}{{ $_ := set $labels $label (include "akri.text" $value) }}{{ end -}}
{{- toYaml $labels -}}
{{- end }}

{{/* A value as the text of a variable. Numbers of values files are floats, which Helm would write as 1e+06. */}}
{{- define "akri.text" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end -}}
{{- end }}

{{- define "akri.env" -}}
{{- if kindIs "slice" . }}
{{- range . }}
{{- $variable := deepCopy . }}
{{- if not (kindIs "invalid" .value) }}{{ $_ := set $variable "value" (include "akri.text" .value) }}{{ end }}
{{ list $variable | toYaml }}
{{- end }}
{{- else }}
{{- range $name, $value := . }}
- name: {{ toJson $name }}
  value: {{ include "akri.text" $value | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{/* The other system whose agents run too, for the programs that write what its agents read. */}}
{{- define "akri.compatibility" -}}
{{- if ne (.Values.compatibility) "off" }}
- name: AKRI_COMPATIBILITY
  value: {{ .Values.compatibility }}
{{- end }}
{{- end }}

{{/*
Not empty if the API server has admission policies, as each of Kubernetes 1.30 has. `helm template` knows the APIs
of no cluster, but it takes a version.
*/}}
{{- define "akri.hasPolicies" -}}
{{- $listed := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" -}}
{{- if or $listed (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}yes{{ end -}}
{{- end }}

{{/*
The size of the file system of reports, as options of its mount: a file for each 4 KiB. Empty without one, and without
reports.
*/}}
{{- define "akri.brokerInfoSize" -}}
{{- $reports := "on" -}}
{{- $env := .Values.agent.env -}}
{{- if kindIs "map" $env }}{{ $reports = get $env "AKRI_BROKER_INFO" -}}
{{- else }}{{ range $env }}{{ if eq .name "AKRI_BROKER_INFO" }}{{ $reports = .value }}{{ end }}{{ end }}{{ end -}}
{{- if ne (include "akri.text" $reports) "off" -}}
{{- with .Values.agent.brokerInfoSize }}{{ $mib := trimSuffix "Mi" . }}size={{ $mib }}m,nr_inodes={{ mul 256 $mib }}{{ end -}}
{{- end -}}
{{- end }}

{{/* The handlers that the agent loads. */}}
{{- define "akri.handlers" -}}
{{- $handlers := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers -}}
{{- $values := (index $.Values .name).discovery -}}
{{- $embedded := and .runsInAgent (not $values.enabled) (ne (toJson $values.embedded) "false") -}}
{{- if eq .name "debugEcho" }}{{ $embedded = and $embedded $.Values.agent.allowDebugEcho }}{{ end -}}
{{- if or $.Values.agent.full $embedded }}{{ $handlers = append $handlers .package }}{{ end -}}
{{- end -}}
{{- concat $handlers (.Values.agent.handlers | default list) | uniq | join "," -}}
{{- end }}

{{/* The handlers whose details the webhook checks: all. */}}
{{- define "akri.allHandlers" -}}
{{- $handlers := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers }}{{ $handlers = append $handlers .package }}{{ end -}}
{{- concat $handlers (.Values.agent.handlers | default list) | uniq | join "," -}}
{{- end }}

{{/* Whether there is a Configuration in this release. */}}
{{- define "akri.anyConfiguration" -}}
{{- range append (include "akri.handlerNames" . | fromJsonArray) "custom" }}{{ if (get $.Values .).configuration.enabled }}yes{{ end }}{{ end -}}
{{- end }}

{{/*
Whether an object of the namespace can belong to this release: there is none, or it does already.
Arguments: root, apiVersion, kind, name.
*/}}
{{- define "akri.ownable" -}}
{{- $found := lookup .apiVersion .kind .root.Release.Namespace .name | default dict -}}
{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $found -}}
{{- if or (empty $found) (eq $release .root.Release.Name) }}yes{{ end -}}
{{- end }}

{{/* Annotations of an object that exists only before an uninstall. The argument is its weight. */}}
{{- define "akri.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
