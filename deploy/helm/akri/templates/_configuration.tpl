{{/*
A Configuration. Arguments: root, handler, values, details; volumes and mounts, lists of the broker's
that can be left out; serviceName, whether the name of a Service names its port; jobServices, whether
brokers of Jobs have Services.
*/}}
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
    name: {{ toJson .handler }}
    {{- if kindIs "string" .details }}
    discoveryDetails: {{ toJson .details }}
    {{- else }}
    discoveryDetails: |
      {{- toYaml .details | nindent 6 }}
    {{- end }}
    {{- with $values.discoveryProperties }}
    discoveryProperties:
      {{- range . }}
      {{- $property := dict "name" .name }}
      {{- if not (kindIs "invalid" .value) }}{{ $_ := set $property "value" (include "akri.text" .value) }}{{ end }}
      {{- /* An empty field is as good as none. */}}
      {{- range $kind, $selector := .valueFrom }}
      {{- $reference := dict }}
      {{- range $name, $field := $selector }}
      {{- if or (kindIs "bool" $field) $field }}{{ $_ := set $reference $name $field }}{{ end }}
      {{- end }}
      {{- if $reference }}{{ $_ := set $property "valueFrom" (dict $kind $reference) }}{{ end }}
      {{- end }}
      - {{- toYaml $property | nindent 8 }}
      {{- end }}
    {{- end }}
  capacity: {{ toJson $values.capacity }}
  {{- if has $values.offer (list "configuration" "instance") }}
  offer: {{ toJson $values.offer }}
  {{- end }}
  {{- if $values.brokerPod.image.repository }}
  brokerSpec:
    brokerPodSpec:
      {{- include "akri.brokerPod" (dict "root" .root "name" $values.name "broker" $values.brokerPod "volumes" .volumes "mounts" .mounts) | nindent 6 }}
  {{- else if $values.brokerJob.image.repository }}
  brokerSpec:
    brokerJobSpec:
      backoffLimit: {{ toJson $values.brokerJob.backoffLimit }}
      parallelism: {{ toJson $values.brokerJob.parallelism }}
      completions: {{ toJson $values.brokerJob.completions }}
      {{- if not (kindIs "invalid" $values.brokerJob.ttlSecondsAfterFinished) }}
      ttlSecondsAfterFinished: {{ toJson $values.brokerJob.ttlSecondsAfterFinished }}
      {{- end }}
      template:
        spec:
          restartPolicy: {{ $values.brokerJob.restartPolicy }}
          {{- include "akri.brokerPod" (dict "root" .root "name" $values.name "broker" $values.brokerJob "volumes" .volumes "mounts" .mounts) | nindent 10 }}
  {{- end }}
  {{- $served := or $values.brokerPod.image.repository (and .jobServices $values.brokerJob.image.repository) }}
  {{- if and $served $values.createInstanceServices }}
  instanceServiceSpec:
    {{- include "akri.brokerService" (dict "service" $values.instanceService "named" .serviceName) | nindent 4 }}
  {{- end }}
  {{- if and $served $values.createConfigurationService }}
  configurationServiceSpec:
    {{- include "akri.brokerService" (dict "service" $values.configurationService "named" .serviceName) | nindent 4 }}
  {{- end }}
  {{- with $values.brokerProperties }}
  brokerProperties:
    {{- range $name, $value := . }}
    {{ toJson $name }}: {{ include "akri.text" $value | toJson }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* The spec of a Pod with one container, which gets the device. Arguments: root, name, broker, volumes, mounts. */}}
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
    {{- with concat (.broker.volumeMounts | default list) (.mounts | default list) }}
    volumeMounts:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- with concat (.broker.volumes | default list) (.volumes | default list) }}
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

{{/* Arguments: service, named. */}}
{{- define "akri.brokerService" -}}
{{- with .service -}}
type: {{ .type }}
ports:
  - name: {{ ternary .name "" (not (empty $.named)) | default .portName | default "grpc" | toJson }}
    port: {{ toJson .port }}
    targetPort: {{ toJson .targetPort }}
    protocol: {{ .protocol }}
{{- end }}
{{- end }}
