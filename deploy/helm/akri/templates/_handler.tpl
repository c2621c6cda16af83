{{/* The DaemonSet of a handler. Arguments: root, handler, values, hostNetwork, port, user. */}}
{{- define "akri.handlerDaemonSet" -}}
{{- $name := printf "akri-%s-discovery" .handler -}}
{{- $port := .values.metricsPort | default .port -}}
{{- $memory := dict "path" (printf "%s.discovery.resources.memoryLimit" .handler) "limit" .values.resources.memoryLimit "beside" 64 -}}
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
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: 10%
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ $name }}
        app.kubernetes.io/part-of: akri
        app.kubernetes.io/component: discovery-handler
    spec:
      automountServiceAccountToken: false
      {{- if .hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      priorityClassName: system-node-critical
      terminationGracePeriodSeconds: 20
      nodeSelector:
        {{- include "akri.nodeSelector" (.values.nodeSelectors | default dict) | nindent 8 }}
      tolerations:
        {{- toYaml .values.tolerations | nindent 8 }}
      securityContext:
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
          command: [node, node_modules/@akrijs/sdk/dist/akri-handler.js, "@akrijs/handler-{{ .handler }}"]
          env:
            - name: DISCOVERY_HANDLERS_DIRECTORY
              value: /var/lib/akri
            - name: METRICS_PORT
              value: {{ toJson $port | quote }}
            - name: LOG_LEVEL
              value: {{ .values.logLevel }}
            - name: NODE_OPTIONS
              value: {{ include "akri.nodeOptions" $memory }}
          ports:
            - name: metrics
              containerPort: {{ toJson $port }}
          resources:
            {{- include "akri.resources" .values.resources | nindent 12 }}
          securityContext:
            privileged: false
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- include "akri.probes" . | nindent 10 }}
          volumeMounts:
            - name: handlers
              mountPath: /var/lib/akri
      volumes:
        - name: handlers
          hostPath:
            path: {{ toJson .root.Values.agent.host.discoveryHandlers }}
            type: DirectoryOrCreate
{{- end }}
