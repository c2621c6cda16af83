{{/*
The values that differ so that the ONVIF and the OPC UA handler cannot share a process; empty if they can.
The ONVIF handler needs the network of the node.
*/}}
{{- define "akri.differentValues" -}}
{{- $onvif := .Values.onvif.discovery -}}
{{- $opcua := .Values.opcua.discovery -}}
{{- $names := list -}}
{{- range $name, $values := dict
  "image" (list (include "akri.image" (dict "root" . "image" $onvif.image)) (include "akri.image" (dict "root" . "image" $opcua.image)))
  "logLevel" (list $onvif.logLevel $opcua.logLevel)
  "metricsPort" (list $onvif.metricsPort $opcua.metricsPort)
  "nodeSelectors" (list ($onvif.nodeSelectors | default dict) ($opcua.nodeSelectors | default dict))
  "tolerations" (list ($onvif.tolerations | default list) ($opcua.tolerations | default list))
  "affinity" (list ($onvif.affinity | default dict) ($opcua.affinity | default dict))
  "updateStrategy" (list ($onvif.updateStrategy | default dict) ($opcua.updateStrategy | default dict))
  "podAnnotations" (list ($onvif.podAnnotations | default dict) ($opcua.podAnnotations | default dict))
  "priorityClassName" (list $onvif.priorityClassName $opcua.priorityClassName)
  "env" (list ($onvif.env | default dict) ($opcua.env | default dict))
  "cpuLimit" (list $onvif.resources.cpuLimit $opcua.resources.cpuLimit)
  "hostNetwork" (list "null" (toJson $opcua.hostNetwork | replace "true" "null"))
}}
{{- if ne (toJson (first $values)) (toJson (last $values)) }}{{ $names = append $names $name }}{{ end -}}
{{- end -}}
{{- join ", " $names -}}
{{- end }}

{{/*
Whether a handler has a DaemonSet. An agent that runs all handlers itself refuses to know a second
one of the same name. Arguments: root, name.
*/}}
{{- define "akri.handlerApart" -}}
{{- $values := (index .root.Values .name).discovery -}}
{{- if and $values.enabled (not (and .root.Values.agent.enabled .root.Values.agent.full)) }}yes{{ end -}}
{{- end }}

{{/* Whether the ONVIF and the OPC UA handler run in one process. */}}
{{- define "akri.oneProcess" -}}
{{- if and .Values.discovery.oneProcess (include "akri.handlerApart" (dict "root" . "name" "onvif")) (include "akri.handlerApart" (dict "root" . "name" "opcua")) (not (include "akri.differentValues" .)) }}yes{{ end -}}
{{- end }}

{{/* The memory of two handlers in one process. The 64Mi of the program itself count once. Arguments: two quantities. */}}
{{- define "akri.sharedMemory" -}}
{{- $first := divf (include "akri.amount" (first .)) 1048576 -}}
{{- $last := divf (include "akri.amount" (last .)) 1048576 -}}
{{- printf "%dMi" (maxf $first $last (subf (addf $first $last) 64) | ceil | int64) -}}
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
          command: [node, node_modules/@akrijs/sdk/dist/akri-handler.js{{ range .handlers }}, "@akrijs/handler-{{ . }}"{{ end }}]
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
