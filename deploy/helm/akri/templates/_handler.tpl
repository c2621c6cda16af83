{{/* The names of the built-in handlers, as a JSON list. handlers.json is a copy of the repository's handlers/built-in.json. */}}
{{- define "akri.handlerNames" -}}
{{- $names := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers }}{{ $names = append $names .name }}{{ end -}}
{{- toJson $names -}}
{{- end }}

{{/* The names of the handlers with a DaemonSet that search the network, as a JSON list. */}}
{{- define "akri.networkHandlers" -}}
{{- $names := list -}}
{{- range (.Files.Get "handlers.json" | fromJson).handlers -}}
{{- if and .network (include "akri.handlerApart" (dict "root" $ "name" .name)) }}{{ $names = append $names .name }}{{ end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* The values that differ so that the handlers of the network cannot share a process; empty if they can. */}}
{{- define "akri.differentValues" -}}
{{- $seen := dict -}}
{{- $names := dict -}}
{{- range $handler := include "akri.networkHandlers" . | fromJsonArray -}}
{{- $discovery := (get $.Values $handler).discovery -}}
{{- range $name, $value := dict
  "image" (include "akri.image" (dict "root" $ "image" $discovery.image))
  "logLevel" $discovery.logLevel
  "metricsPort" $discovery.metricsPort
  "nodeSelectors" ($discovery.nodeSelectors | default dict)
  "tolerations" ($discovery.tolerations | default list)
  "affinity" ($discovery.affinity | default dict)
  "updateStrategy" ($discovery.updateStrategy | default dict)
  "podAnnotations" ($discovery.podAnnotations | default dict)
  "priorityClassName" $discovery.priorityClassName
  "env" ($discovery.env | default dict)
  "cpuLimit" $discovery.resources.cpuLimit
  "hostNetwork" (toJson $discovery.hostNetwork | replace "true" "null")
}}
{{- $text := toJson $value -}}
{{- if ne $text (get $seen $name | default $text) }}{{ $_ := set $names $name true }}{{ end -}}
{{- $_ := set $seen $name $text -}}
{{- end -}}
{{- end -}}
{{- keys $names | sortAlpha | join ", " -}}
{{- end }}

{{/*
Whether a handler has a DaemonSet. An agent that runs all handlers itself refuses to know a second
one of the same name. Arguments: root, name.
*/}}
{{- define "akri.handlerApart" -}}
{{- $values := (index .root.Values .name).discovery -}}
{{- if and $values.enabled (not (and .root.Values.agent.enabled .root.Values.agent.full)) }}yes{{ end -}}
{{- end }}

{{/* Whether several handlers search the network, all in one process. */}}
{{- define "akri.oneProcess" -}}
{{- if and .Values.discovery.oneProcess (gt (len (include "akri.networkHandlers" . | fromJsonArray)) 1) (not (include "akri.differentValues" .)) }}yes{{ end -}}
{{- end }}

{{/*
The memory of several handlers in one process. The 64Mi of the program itself count once. The argument is a list of
quantities.
*/}}
{{- define "akri.sharedMemory" -}}
{{- $most := 0 -}}
{{- $sum := 64 -}}
{{- range . -}}
{{- $memory := divf (include "akri.amount" .) 1048576 -}}
{{- $most = maxf $most $memory -}}
{{- $sum = subf (addf $sum $memory) 64 -}}
{{- end -}}
{{- printf "%dMi" (maxf $most $sum | ceil | int64) -}}
{{- end }}

{{/*
The DaemonSet of handlers in one process. Arguments: root, name, handlers, values, hostNetwork, port,
user; environment, mounts and volumes, lists that can be left out.
*/}}
{{- define "akri.handlerDaemonSet" -}}
{{- $name := printf "akri-%s-discovery" .name -}}
{{- $port := .values.metricsPort | default .port -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name }}-daemonset
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "akri.labels" (dict "root" .root "name" $name "component" "discovery-handler") | nindent 4 }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ $name }}
  updateStrategy:
    {{- include "akri.updateStrategy" .values.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ $name }}
        app.kubernetes.io/part-of: akri
        app.kubernetes.io/component: discovery-handler
      {{- with include "akri.podAnnotations" .values.podAnnotations }}
      {{- . | nindent 6 }}
      {{- end }}
    spec:
      automountServiceAccountToken: false
      {{- if .hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      terminationGracePeriodSeconds: 20
      {{- $affinity := include "akri.deviceNodes" . | fromYaml }}
      {{- include "akri.placement" (dict "values" .values "priority" "system-node-critical" "affinity" $affinity) | nindent 6 }}
      securityContext:
        {{- with include "akri.seLinux" .root }}
        {{- . | nindent 8 }}
        {{- end }}
        runAsNonRoot: true
        runAsUser: {{ .user }}
        runAsGroup: {{ include "akri.handlersGroup" . }}
        seccompProfile:
          type: RuntimeDefault
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: handler
          {{- include "akri.image" (dict "root" .root "image" .values.image) | nindent 10 }}
          workingDir: /app
          command: [node, node_modules/@akrijs/sdk/dist/akri-handler.js{{ range .handlers }}, "@akrijs/handler-{{ kebabcase . }}"{{ end }}]
          env:
            - name: DISCOVERY_HANDLERS_DIRECTORY
              value: /var/lib/akri
            - name: METRICS_PORT
              value: {{ toJson $port | quote }}
            - name: LOG_LEVEL
              value: {{ .values.logLevel }}
            - name: NODE_OPTIONS
              value: {{ include "akri.nodeOptions" (dict "limit" .values.resources.memoryLimit "beside" 64) }}
            {{- with .environment }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
            {{- include "akri.env" .values.env | nindent 12 }}
          ports:
            - name: metrics
              containerPort: {{ toJson $port }}
          resources:
            {{- include "akri.resources" .values.resources | nindent 12 }}
          securityContext:
            {{- include "akri.isolated" . | nindent 12 }}
          {{- include "akri.probes" (dict "port" "metrics" "hostNetwork" .hostNetwork) | trim | nindent 10 }}
          volumeMounts:
            - name: handlers
              mountPath: /var/lib/akri
            {{- with .mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: handlers
          hostPath:
            path: {{ toJson .root.Values.agent.host.discoveryHandlers }}
            type: DirectoryOrCreate
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}
