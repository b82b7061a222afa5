{{- define "console.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "console.labels" -}}
app.kubernetes.io/name: gpu-defrag-console
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "console.selector" -}}
app.kubernetes.io/name: gpu-defrag-console
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "console.steeringUrl" -}}
{{- if .Values.steering.url -}}
{{ .Values.steering.url }}
{{- else -}}
https://{{ include "console.name" . }}-steering.{{ .Release.Namespace }}.svc:8443
{{- end -}}
{{- end -}}

{{- define "console.extenderUrl" -}}
{{- if .Values.extender.url -}}
{{ .Values.extender.url }}
{{- else -}}
https://{{ include "console.name" . }}-extender-{cluster}.{{ .Release.Namespace }}.svc:8444
{{- end -}}
{{- end -}}

{{- define "console.environment" -}}
{{- $secret := required "secret.name: name the Secret that holds SECRET_KEY, DATABASE_URL and REDIS_URL" .Values.secret.name -}}
{{- range tuple "SECRET_KEY" "DATABASE_URL" "REDIS_URL" }}
- name: {{ . }}
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}
{{- end }}
- name: CREDENTIAL_KEYS
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: CREDENTIAL_KEYS, optional: true}}
- name: METRICS_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $secret }}, key: METRICS_TOKEN, optional: true}}
- name: ALLOWED_HOSTS
  value: {{ concat (list "127.0.0.1" "localhost") .Values.hosts | join "," | quote }}
- name: CSRF_TRUSTED_ORIGINS
  value: {{ join "," .Values.trustedOrigins | quote }}
- name: BEHIND_TLS_PROXY
  value: {{ ternary "1" "" .Values.behindTlsProxy | quote }}
- name: LOG_JSON
  value: "1"
{{- if .Values.steering.enabled }}
- name: STEERING_URL
  value: {{ include "console.steeringUrl" . | quote }}
- name: STEERING_CA_FILE
  value: /steering/ca.crt
{{- end }}
{{- if .Values.extender.clusters }}
- name: EXTENDER_URL
  value: {{ include "console.extenderUrl" . | quote }}
- name: EXTENDER_CA_FILE
  value: /extender/ca.crt
{{- end }}
{{- range $name, $value := .Values.environment }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- /* One container of ours. Takes root, part, command; ports and probes are the caller's. */ -}}
{{- define "console.pod" -}}
{{- $root := .root -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .part }}
    image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: {{ toJson .command }}
    env: {{- include "console.environment" $root | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    resources: {{ toYaml (get $root.Values.resources .resources) | nindent 6 }}
{{- with .more }}
{{ toYaml . | indent 4 }}
{{- end }}
    volumeMounts:
      - {name: scratch, mountPath: /tmp}
{{- if $root.Values.steering.enabled }}
      - {name: steering, mountPath: /steering, readOnly: true}
{{- end }}
{{- if $root.Values.extender.clusters }}
      - {name: extender, mountPath: /extender, readOnly: true}
{{- end }}
volumes:
  - name: scratch
    emptyDir: {}
{{- if $root.Values.steering.enabled }}
  - name: steering
    secret:
      secretName: {{ required "steering.tlsSecret: name a TLS Secret with tls.crt, tls.key and ca.crt, or set steering.enabled to false" $root.Values.steering.tlsSecret }}
{{- end }}
{{- if $root.Values.extender.clusters }}
  - name: extender
    secret:
      secretName: {{ required "extender.tlsSecret: name a TLS Secret with tls.crt, tls.key and ca.crt, or leave extender.clusters empty" $root.Values.extender.tlsSecret }}
{{- end }}
{{- end -}}
