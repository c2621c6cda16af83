{{/*
Checks and completes the values. Every template includes it first, because Helm renders templates in
any order; only the first time matters. All refusals come at once. `.Values.warnings` is for the notes.
*/}}
{{- define "akri.values" -}}
{{- if not (hasKey .Values "warnings") -}}
{{- $found := dict "warnings" list "refusals" list -}}
{{- include "akri.unsetValues" . -}}
{{- include "akri.releaseChecks" (dict "root" . "found" $found) -}}
{{- include "akri.existingImages" (dict "root" . "found" $found) -}}
{{- include "akri.existingValues" (dict "root" . "found" $found) -}}
{{- include "akri.programChecks" (dict "root" . "found" $found) -}}
{{- include "akri.configurationChecks" (dict "root" . "found" $found) -}}
{{- if $found.refusals }}{{ fail (printf "\n%s" (join "\n" $found.refusals)) }}{{ end -}}
{{- $_ := set .Values "warnings" $found.warnings -}}
{{- end -}}
{{- end }}

{{/* Adds a line to `warnings` or `refusals`. Arguments: found, list, line. */}}
{{- define "akri.note" -}}
{{- $_ := set .found .list (append (get .found .list) .line | uniq) -}}
{{- end }}

{{/* The value at a path, as JSON; null if it is unset. Arguments: values, path. */}}
{{- define "akri.valueAt" -}}
{{- $value := .values -}}
{{- range splitList "." .path -}}
{{- if kindIs "map" $value }}{{ $value = get $value . }}{{ else }}{{ $value = "" }}{{ end -}}
{{- end -}}
{{- if or (kindIs "bool" $value) (not (empty $value)) }}{{ toJson $value }}{{ else }}null{{ end -}}
{{- end }}

{{/* Sets the value at a path whose maps exist; null removes it. Arguments: values, path, value. */}}
{{- define "akri.setAt" -}}
{{- $keys := splitList "." .path -}}
{{- $map := .values -}}
{{- range initial $keys }}{{ $map = get $map . }}{{ end -}}
{{- if kindIs "invalid" .value }}{{ $_ := unset $map (last $keys) }}{{ else }}{{ $_ := set $map (last $keys) .value }}{{ end -}}
{{- end }}

{{/*
An unset value means its default: Helm removes a value that is null, or that a release of an earlier chart lacks
(--reuse-values). defaults.yaml is a copy of values.yaml, which templates cannot read.
*/}}
{{- define "akri.unsetValues" -}}
{{- /* Two DaemonSets of an earlier release stay two. */}}
{{- if kindIs "invalid" .Values.discovery }}{{ $_ := set .Values "discovery" (dict "oneProcess" false) }}{{ end -}}
{{- range $name, $defaults := .Files.Get "defaults.yaml" | fromYaml -}}
{{- $part := get $.Values $name -}}
{{- if kindIs "map" $part }}{{ include "akri.withoutNulls" $part }}{{ end -}}
{{- end -}}
{{- include "akri.withDefaults" (dict "values" .Values "defaults" (.Files.Get "defaults.yaml" | fromYaml)) -}}
{{- /*
Not in values.yaml: these are empty maps in the existing chart, and Helm warns of a map in place of a list.
*/}}
{{- $plane := dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists" "effect" "NoSchedule" -}}
{{- $briefly := dict "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 30 -}}
{{- $unreachable := merge (dict "key" "node.kubernetes.io/unreachable") $briefly -}}
{{- $notReady := merge (dict "key" "node.kubernetes.io/not-ready") $briefly -}}
{{- range $name, $tolerations := dict "agent" (list (dict "operator" "Exists")) "controller" (list $plane $unreachable $notReady) -}}
{{- $program := get $.Values $name -}}
{{- if kindIs "invalid" $program.tolerations }}{{ $_ := set $program "tolerations" $tolerations }}{{ end -}}
{{- end -}}
{{- /* A list of tolerations can be an empty map. */}}
{{- range list "agent" "controller" "webhookConfiguration" "ui" -}}
{{- $program := get $.Values . -}}
{{- if not $program.tolerations }}{{ $_ := set $program "tolerations" list }}{{ end -}}
{{- end -}}
{{- range append (include "akri.handlerNames" . | fromJsonArray) "custom" -}}
{{- $program := (get $.Values .).discovery -}}
{{- if not $program.tolerations }}{{ $_ := set $program "tolerations" list }}{{ end -}}
{{- end -}}
{{- /* In the existing chart an empty text means that the directory is not mounted. */}}
{{- range list .Values.agent.host .Values.udev.discovery.host -}}
{{- if not .udev }}{{ $_ := set . "udev" "/run/udev" }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Removes nulls from a map and its maps. Among fields of Kubernetes a null removes a field of the chart. */}}
{{- define "akri.withoutNulls" -}}
{{- range $name, $value := . -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $ $name -}}
{{- else if and (kindIs "map" $value) (not (has $name (list "securityContext" "affinity" "updateStrategy"))) }}{{ include "akri.withoutNulls" $value }}{{ end -}}
{{- end -}}
{{- end }}

{{/* Adds what values lack. Arguments: values, defaults. */}}
{{- define "akri.withDefaults" -}}
{{- $values := .values -}}
{{- range $name, $default := .defaults -}}
{{- if kindIs "invalid" $default -}}
{{- else if kindIs "invalid" (index $values $name) }}{{ $_ := set $values $name (deepCopy $default) -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (index $values $name)) -}}
{{- include "akri.withDefaults" (dict "values" (index $values $name) "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
An upgrade of a release of the existing chart: no selector can change, so Helm would stop half-way, when the agents of that
system have lost their rights. Arguments: root, found.
*/}}
{{- define "akri.releaseChecks" -}}
{{- $root := .root -}}
{{- $found := .found -}}
{{- range $kind, $program := dict "DaemonSet" "agent" "Deployment" "controller" -}}
{{- if (get $root.Values $program).enabled -}}
{{- $name := printf "akri-%s-%s" $program (lower $kind) -}}
{{- $object := lookup "apps/v1" $kind $root.Release.Namespace $name | default dict -}}
{{- with dig "spec" "selector" "matchLabels" dict $object -}}
{{- if ne (toJson .) (dict "app.kubernetes.io/name" (printf "akri-%s" $program) | toJson) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s %s/%s is that of another chart, and Helm cannot change its selector: take that release away first, as docs/migration.md says" $kind $root.Release.Namespace $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Images of the existing system mean the image of this chart. Arguments: root, found. */}}
{{- define "akri.existingImages" -}}
{{- $root := .root -}}
{{- $found := .found -}}
{{- $rows := $root.Files.Get "existing-values.yaml" | fromYaml -}}
{{- $ours := "this is an image of the existing system; the image of this chart is used" -}}
{{- range $path := list "agent.image" "controller.image" "webhookConfiguration.image" "debugEcho.discovery.image" "onvif.discovery.image" "opcua.discovery.image" "udev.discovery.image" -}}
{{- $image := include "akri.valueAt" (dict "values" $root.Values "path" $path) | fromJson -}}
{{- /* Beside its default repository. Versions of this chart have no "v". */}}
{{- if and (not $image.repository) (not $image.fullRepository) (regexMatch "^v0\\.[0-9]+\\.[0-9]+" (toString $image.tag)) -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" (printf "%s.tag: %s" $path $ours)) -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" (printf "%s.tag" $path) "value" "") -}}
{{- end -}}
{{- range $key := list "repository" "fullRepository" -}}
{{- $repository := get $image $key | default "" -}}
{{- if regexMatch "^ghcr\\.io/(project-akri|deislabs)/" $repository -}}
{{- if ne $repository (get $rows (printf "%s.%s" $path $key) | default dict).default -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" (printf "%s.%s: %s" $path $key $ours)) -}}
{{- end -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" (printf "%s.%s" $path $key) "value" "") -}}
{{- if eq $key "repository" -}}
{{- if $image.tag -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" (printf "%s.tag: %s" $path $ours)) -}}
{{- end -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" (printf "%s.tag" $path) "value" "") -}}
{{- if eq (toJson $image.pullPolicy) (get $rows (printf "%s.pullPolicy" $path)).default | toJson -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" (printf "%s.pullPolicy" $path) "value" "") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What existing-values.yaml says. Arguments: root, found. */}}
{{- define "akri.existingValues" -}}
{{- $root := .root -}}
{{- $found := .found -}}
{{- range $path, $row := $root.Files.Get "existing-values.yaml" | fromYaml -}}
{{- if has $row.as (list "replaced" "warning" "refused") -}}
{{- $value := include "akri.valueAt" (dict "values" $root.Values "path" $path) -}}
{{- $isDefault := eq $value (toJson $row.default) -}}
{{- if eq $row.as "replaced" -}}
{{- if or $isDefault (eq $value "null") -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" $path "value" $row.here) -}}
{{- end -}}
{{- else if not (or $isDefault (eq $value "null")) -}}
{{- $list := ternary "warnings" "refusals" (eq $row.as "warning") -}}
{{- include "akri.note" (dict "found" $found "list" $list "line" (printf "%s: %s: %s" $path $value $row.why)) -}}
{{- include "akri.setAt" (dict "values" $root.Values "path" $path "value" nil) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
Requests that are higher than their limits: the API server refuses such a Pod when a part of the
release is installed already. Arguments: path, resources, found.
*/}}
{{- define "akri.requestChecks" -}}
{{- $resources := .resources | default dict -}}
{{- $found := .found -}}
{{- range $kind := list "memory" "cpu" -}}
{{- $request := get $resources (printf "%sRequest" $kind) -}}
{{- $limit := get $resources (printf "%sLimit" $kind) -}}
{{- if and $request $limit -}}
{{- if gt (include "akri.amount" $request | float64) (include "akri.amount" $limit | float64) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.resources.%sRequest: %s is more than %sLimit: %s" $.path $kind (include "akri.text" $request) $kind (include "akri.text" $limit))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Whether the nodes of two programs differ: by a label, or perhaps by affinity. The argument is a list of their values. */}}
{{- define "akri.nodesDiffer" -}}
{{- $others := (last .).nodeSelectors -}}
{{- $differ := or (first .).affinity.nodeAffinity (last .).affinity.nodeAffinity -}}
{{- range $label, $value := (first .).nodeSelectors -}}
{{- if and (hasKey $others $label) (ne (include "akri.text" $value) (include "akri.text" (get $others $label))) }}{{ $differ = true }}{{ end -}}
{{- end -}}
{{- if $differ }}yes{{ end -}}
{{- end }}

{{/* Two programs with one port in the network of the node: one of them would not start. Arguments: root, found. */}}
{{- define "akri.portChecks" -}}
{{- $root := .root -}}
{{- $found := .found -}}
{{- $programs := list -}}
{{- with $root.Values.agent -}}
{{- if and .enabled (or .full .hostNetwork) }}{{ $programs = append $programs (dict "path" "agent" "port" (include "akri.agentPort" $root) "values" .) }}{{ end -}}
{{- end -}}
{{- $together := include "akri.networkHandlers" $root | fromJsonArray -}}
{{- range (.root.Files.Get "handlers.json" | fromJson).handlers -}}
{{- if has .name $together -}}
{{- $values := (get $root.Values .name).discovery -}}
{{- $oneProcess := include "akri.oneProcess" $root -}}
{{- $port := ternary 18081 .network.port (not (empty $oneProcess)) -}}
{{- if ternary (eq .name (first $together)) ($values.hostNetwork | default (ne .name "opcua")) (not (empty $oneProcess)) -}}
{{- $programs = append $programs (dict "path" (printf "%s.discovery" .name) "port" ($values.metricsPort | default $port | toJson) "values" $values) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $index, $program := $programs -}}
{{- range slice $programs 0 $index -}}
{{- if and (eq .port $program.port) (not (include "akri.nodesDiffer" (list .values $program.values))) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.metricsPort: %s is the port of %s too, and both run in the network of the node" $program.path .port .path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Handlers that two programs would run, and names that two workloads would have. Arguments: root, found. */}}
{{- define "akri.handlerChecks" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $found := .found -}}
{{- $names := list -}}
{{- if $values.agent.enabled }}{{ $names = append $names "akri-agent" }}{{ end -}}
{{- if $values.controller.enabled }}{{ $names = append $names "akri-controller" }}{{ end -}}
{{- if include "akri.webhook" $root }}{{ $names = append $names "akri-webhook" }}{{ end -}}
{{- if $values.ui.enabled }}{{ $names = append $names "akri-ui" }}{{ end -}}
{{- range (.root.Files.Get "handlers.json" | fromJson).handlers -}}
{{- if include "akri.handlerApart" (dict "root" $root "name" .name) -}}
{{- $together := and .network (include "akri.oneProcess" $root) -}}
{{- $names = printf "akri-%s-discovery" (ternary "network" (kebabcase .name) (not (empty $together))) | append $names -}}
{{- if and $values.agent.enabled (has .package ($values.agent.handlers | default list)) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "agent.handlers: %s: the agent would refuse the DaemonSet of %s.discovery.enabled, which runs the same handler: give one of both" .package .name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $values.custom.discovery -}}
{{- if and .enabled (has .name $names) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "custom.discovery.name: %s is the name of another program of this release" .name)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Variables of programs that the chart sets, or that would contradict what it mounts. */}}
{{- define "akri.ownVariables" -}}
{{- list
  "AGENT_NODE_NAME" "AKRI_CERTIFICATE_SECRET" "AKRI_COMPATIBILITY" "AKRI_CRI_SOCKET" "AKRI_FAILURE_POLICY"
  "AKRI_HANDLERS" "AKRI_HANDLERS_GROUP" "AKRI_HANDLER_ADDRESSES" "AKRI_HANDLER_DEVICES"
  "AKRI_HANDLER_ENVIRONMENT" "AKRI_HANDLER_MOUNTS" "AKRI_STATE_DIRECTORY" "AKRI_TLS_CRT_FILE"
  "AKRI_TLS_KEY_FILE" "AKRI_WEBHOOK_CONFIGURATION" "AKRI_WEBHOOK_PORT" "AKRI_WEBHOOK_SERVICE"
  "DEBUG_ECHO_INSTANCES_SHARED" "DISCOVERY_HANDLERS_DIRECTORY" "KUBECONFIG" "KUBELET_PLUGIN_DIRECTORY"
  "KUBELET_POD_RESOURCES_SOCKET" "LOG_LEVEL" "METRICS_PORT" "NODE_OPTIONS" "POD_NAME" "POD_NAMESPACE"
  | toJson
-}}
{{- end }}

{{/* The names of extra variables, as a JSON list. */}}
{{- define "akri.envNames" -}}
{{- if kindIs "map" . }}{{ keys . | toJson }}
{{- else }}
{{- $names := list -}}
{{- range . }}{{ $names = append $names .name }}{{ end -}}
{{- toJson $names }}
{{- end }}
{{- end }}

{{/* Values of programs that would break them silently. Arguments: root, found. */}}
{{- define "akri.programChecks" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $found := .found -}}
{{- include "akri.portChecks" . -}}
{{- include "akri.handlerChecks" . -}}
{{- $programs := dict "agent" 96 "controller" 64 "webhookConfiguration" 128 "ui" 96 -}}
{{- range include "akri.handlerNames" $root | fromJsonArray }}{{ $_ := set $programs (printf "%s.discovery" .) 64 }}{{ end -}}
{{- range $path, $beside := $programs -}}
{{- $program := include "akri.valueAt" (dict "values" $values "path" $path) | fromJson -}}
{{- if and $program.enabled $program.resources -}}
{{- $limit := $program.resources.memoryLimit -}}
{{- if lt (include "akri.heap" (dict "limit" $limit "beside" $beside) | int) 64 -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.resources.memoryLimit: %s is too little: Node.js needs %dMi at least" $path (include "akri.text" $limit) (add $beside 64))) -}}
{{- end -}}
{{- include "akri.requestChecks" (dict "path" $path "resources" $program.resources "found" $found) -}}
{{- range $name := include "akri.envNames" $program.env | fromJsonArray -}}
{{- if has $name (include "akri.ownVariables" . | fromJsonArray) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.env: %s: the chart sets this variable; docs/helm.md has the values" $path $name)) -}}
{{- end -}}
{{- end -}}
{{- with $program.resources.cpuLimit -}}
{{- if lt (include "akri.amount" . | float64) 0.1 -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.resources.cpuLimit: %s is too little: the program would start too late for its probes; leave it out, or give 100m at least" $path (include "akri.text" .))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $values.webhookConfiguration -}}
{{- if and .enabled .networkPolicy.enabled (not (concat (.networkPolicy.apiServers | default list) (.networkPolicy.from | default list))) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "webhookConfiguration.networkPolicy.apiServers: write the networks from which the API servers reach Pods, such as 10.0.0.0/24, or peers into from; see docs/webhook.md") -}}
{{- end -}}
{{- end -}}
{{- with $values.webhookConfiguration -}}
{{- if and (eq ($values.compatibility) "akri-0.13") (or (not .enabled) (eq (.failurePolicy | default "Fail") "Ignore")) (not (include "akri.hasPolicies" $root)) -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" "compatibility: akri-0.13: before Kubernetes 1.30, without the webhook and failurePolicy Fail, the cluster takes Configurations that stop all agents of the existing system; see docs/migration.md") -}}
{{- end -}}
{{- end -}}
{{- if $values.custom.discovery.enabled -}}
{{- include "akri.requestChecks" (dict "path" "custom.discovery" "resources" $values.custom.discovery.resources "found" $found) -}}
{{- end -}}
{{- if and $values.custom.discovery.enabled (not $values.custom.discovery.image.repository) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "custom.discovery.image.repository: name the image of the handler") -}}
{{- end -}}
{{- if and $values.agent.enabled $values.agent.full -}}
{{- range $name := include "akri.handlerNames" $root | fromJsonArray | sortAlpha -}}
{{- if (get $values $name).discovery.enabled -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" (printf "%s.discovery.enabled: true: the handler has no DaemonSet, because the agent runs it: agent.full" $name)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $path := list "controller" "webhookConfiguration" -}}
{{- $program := get $values $path -}}
{{- if and (eq (toJson $program.allowOnControlPlane) "false") (not $program.onlyOnControlPlane) -}}
{{- range $program.tolerations -}}
{{- if and (not .key) (eq (.effect | default "NoSchedule") "NoSchedule") -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.allowOnControlPlane: false: a toleration without a key tolerates the control plane too: name keys in %s.tolerations" $path $path)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $program.onlyOnControlPlane ($program.affinity | default dict).nodeAffinity -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.onlyOnControlPlane: true: give this or %s.affinity.nodeAffinity, not both" $path $path)) -}}
{{- end -}}
{{- end -}}
{{- if and $values.ui.enabled (not $values.ui.hosts) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "ui.hosts: write the hosts at which browsers open the page, such as devices.example.com; see docs/ui.md") -}}
{{- end -}}
{{- if not (include "akri.rights" .root) -}}
{{- if or $values.agent.enabled $values.controller.enabled -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" "rbac.enabled: false: the service accounts have no rights of this chart; the programs start when others give them these rights") -}}
{{- end -}}
{{- end -}}
{{- if and $values.custom.discovery.enabled (not $values.agent.handlerAccess.mounts) (not $values.agent.handlerAccess.devices) -}}
{{- include "akri.note" (dict "found" $found "list" "warnings" "line" "custom.discovery.enabled: true: a handler that reports mounts or device nodes needs rules: set agent.handlerAccess") -}}
{{- end -}}
{{- end }}

{{/*
Makes the items of all filters in details texts: a setting of --set can be a number. `action` alone is a filter without
items.
*/}}
{{- define "akri.filterTexts" -}}
{{- range $inner := . -}}
{{- if kindIs "map" $inner -}}
{{- if or (kindIs "string" $inner.action) (kindIs "slice" $inner.items) -}}
{{- $items := list -}}
{{- range $inner.items }}{{ $items = append $items (include "akri.text" .) }}{{ end -}}
{{- $_ := set $inner "items" $items -}}
{{- else }}{{ include "akri.filterTexts" $inner }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Values that make a Configuration useless. Arguments: root, found. */}}
{{- define "akri.configurationChecks" -}}
{{- $values := .root.Values -}}
{{- $found := .found -}}
{{- with $values.udev.configuration -}}
{{- if and .enabled (not .discoveryDetails.udevRules) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "udev.configuration.discoveryDetails.udevRules: name at least one rule, such as SUBSYSTEM==\"video4linux\"") -}}
{{- end -}}
{{- end -}}
{{- with $values.opcua.configuration -}}
{{- if and .enabled .discoveryDetails.opcuaDiscoveryMethod .discoveryDetails.discoveryUrls -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "opcua.configuration.discoveryDetails: give one of discoveryUrls and opcuaDiscoveryMethod") -}}
{{- end -}}
{{- end -}}
{{- with $values.custom.configuration -}}
{{- if and .enabled (not .discoveryHandlerName) -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" "custom.configuration.discoveryHandlerName: name the handler that the Configuration is for") -}}
{{- end -}}
{{- end -}}
{{- $names := dict -}}
{{- range $part := append (include "akri.handlerNames" .root | fromJsonArray) "custom" -}}
{{- $configuration := (get $values $part).configuration -}}
{{- if $configuration.enabled -}}
{{- $name := toString $configuration.name -}}
{{- if hasKey $names $name -}}
{{- include "akri.note" (dict "found" $found "list" "refusals" "line" (printf "%s.configuration.name: %s.configuration has the name %s too" $part (get $names $name) $name)) -}}
{{- end -}}
{{- $_ := set $names $name $part -}}
{{- end -}}
{{- end -}}
{{- range include "akri.handlerNames" .root | fromJsonArray }}{{ include "akri.filterTexts" (get $values .).configuration.discoveryDetails }}{{ end -}}
{{- end }}
