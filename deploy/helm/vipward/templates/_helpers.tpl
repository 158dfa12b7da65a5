{{- define "vipward.labels" -}}
app.kubernetes.io/name: vipward
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "vipward.image" -}}
{{- with .Values.image.digest }}{{ printf "%s@%s" $.Values.image.repository . }}
{{- else }}{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* A flag with a value, unless that is null. */}}
{{- define "vipward.flag" -}}
{{- $flag := index . 0 }}
{{- $value := index . 1 }}
{{- /* Numbers of a values file are floating-point here, and would be written with an exponent. */}}
{{- if kindIs "float64" $value }}{{ $value = int64 $value }}{{ end }}
{{- if not (kindIs "invalid" $value) }}
- {{ printf "--%s=%v" $flag $value | quote }}
{{- end }}
{{- end }}

{{- /* A flag for each of a list's values. */}}
{{- define "vipward.flags" -}}
{{- $flag := index . 0 }}
{{- range index . 1 }}
- {{ printf "--%s=%s" $flag . | quote }}
{{- end }}
{{- end }}

{{- /* A flag without a value, if it is switched on. */}}
{{- define "vipward.switch" -}}
{{- if index . 1 }}
- {{ printf "--%s" (index . 0) | quote }}
{{- end }}
{{- end }}

{{- /* The flags that say which Services and addresses count, from the values below `agent`: the controller has them too. */}}
{{- define "vipward.services" -}}
{{- include "vipward.flag" (list "load-balancer-class" .loadBalancerClass) }}
{{- include "vipward.switch" (list "class-only" .classOnly) }}
{{- include "vipward.flags" (list "namespace" .namespaces) }}
{{- include "vipward.flag" (list "namespace-selector" .namespaceSelector) }}
{{- include "vipward.flag" (list "service-selector" .serviceSelector) }}
{{- include "vipward.switch" (list "external-ips" .externalIPs) }}
{{- include "vipward.flags" (list "allow-address" .allowAddresses) }}
{{- include "vipward.flags" (list "refuse-address" .refuseAddresses) }}
{{- include "vipward.flag" (list "max-addresses" .maxAddresses) }}
{{- include "vipward.flag" (list "max-vips-per-namespace" .maxVipsPerNamespace) }}
{{- include "vipward.switch" (list "withdraw-without-endpoints" .withdrawWithoutEndpoints) }}
{{- end }}

{{- /* The flags of agents and controller instead of MetalLB. */}}
{{- define "vipward.metallb" -}}
{{- if .Values.metallb.enabled }}
{{- include "vipward.switch" (list "metallb" .Values.metallb.enabled) }}
{{- if ne .Values.metallb.namespace "metallb-system" }}
{{- include "vipward.flag" (list "metallb-namespace" .Values.metallb.namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Text if the cluster serves what policies.yaml needs, and its tokens name their nodes. */}}
{{- define "vipward.policies" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}
{{- if and $served (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}yes{{ end }}
{{- end }}
