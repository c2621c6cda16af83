{{/* A Configuration. Arguments: root, handler, values, details. */}}
{{- define "akri.configuration" -}}
{{- $values := .values -}}
apiVersion: akri.sh/v0
kind: Configuration
metadata:
  name: {{ toJson $values.name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "akri.labels" (dict "root" .root) | nindent 4 }}
spec:
  discoveryHandler:
    name: {{ .handler }}
    discoveryDetails: |
      {{- toYaml .details | nindent 6 }}
    {{- with $values.discoveryProperties }}
    discoveryProperties:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  capacity: {{ toJson $values.capacity }}
  {{- if $values.brokerPod.image.repository }}
  brokerSpec:
    brokerPodSpec:
      {{- include "akri.brokerPod" (dict "root" .root "name" $values.name "broker" $values.brokerPod) | nindent 6 }}
  {{- else if $values.brokerJob.image.repository }}
  brokerSpec:
    brokerJobSpec:
      backoffLimit: {{ toJson $values.brokerJob.backoffLimit }}
      parallelism: {{ toJson $values.brokerJob.parallelism }}
      completions: {{ toJson $values.brokerJob.completions }}
      template:
        spec:
          restartPolicy: {{ $values.brokerJob.restartPolicy }}
          {{- include "akri.brokerPod" (dict "root" .root "name" $values.name "broker" $values.brokerJob) | nindent 10 }}
  {{- end }}
  {{- if and $values.brokerPod.image.repository $values.createInstanceServices }}
  instanceServiceSpec:
    {{- include "akri.brokerService" $values.instanceService | nindent 4 }}
  {{- end }}
  {{- if and $values.brokerPod.image.repository $values.createConfigurationService }}
  configurationServiceSpec:
    {{- include "akri.brokerService" $values.configurationService | nindent 4 }}
  {{- end }}
  {{- with $values.brokerProperties }}
  brokerProperties:
    {{- range $name, $value := . }}
    {{ toJson $name }}: {{ include "akri.text" $value | toJson }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* The spec of a Pod with one container, which gets the device. Arguments: root, name, broker. */}}
{{- define "akri.brokerPod" -}}
{{- $resources := .broker.resources -}}
{{- /* akri.js replaces the placeholder with the name of the device's resource. */}}
{{- $device := dict "{{PLACEHOLDER}}" "1" -}}
{{- $requests := dict "cpu" $resources.cpuRequest "memory" $resources.memoryRequest -}}
{{- $limits := dict "cpu" $resources.cpuLimit "memory" $resources.memoryLimit -}}
containers:
  - name: {{ printf "%s-broker" .name | replace "." "-" | toJson }}
    image: {{ printf "%s:%s" .broker.image.repository (.broker.image.tag | default "latest") | toJson }}
    {{- with .broker.image.pullPolicy }}
    imagePullPolicy: {{ . }}
    {{- end }}
    {{- with .broker.command }}
    command:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .broker.env }}
    env:
      {{- include "akri.env" . | nindent 6 }}
    {{- end }}
    {{- with .broker.envFrom }}
    envFrom:
      {{- range .secretRef }}
      - secretRef: { name: {{ toJson . }} }
      {{- end }}
      {{- range .configMapRef }}
      - configMapRef: { name: {{ toJson . }} }
      {{- end }}
    {{- end }}
    {{- with .broker.securityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    resources:
      requests:
        {{- include "akri.withoutEmpty" (merge $requests $device) | nindent 8 }}
      limits:
        {{- include "akri.withoutEmpty" (merge $limits $device) | nindent 8 }}
    {{- with .broker.volumeMounts }}
    volumeMounts:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- with .broker.volumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "akri.withoutEmpty" -}}
{{- range $name, $value := . }}
{{- if $value }}
{{ toJson $name }}: {{ toJson $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "akri.brokerService" -}}
type: {{ .type }}
ports:
  - name: {{ toJson .portName }}
    port: {{ toJson .port }}
    targetPort: {{ toJson .targetPort }}
    protocol: {{ .protocol }}
{{- end }}
