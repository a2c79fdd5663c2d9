{{- define "registry-lb.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "registry-lb.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 57 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "registry-lb.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 57 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 57 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "registry-lb.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "registry-lb.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /*
One label with the key "app". The Service of NSM's own manifests selects by that key, too. Taking it over, and applying
NSM's manifests again later, merge selectors key by key: with any other key the result would select no pod at all.
*/ -}}
{{- define "registry-lb.selector" -}}
{{- $app := include "registry-lb.fullname" . -}}
{{- if eq $app (get .Values.registry.selector "app" | default "registry") -}}
{{- fail (printf "the name of the release's objects, %q, is the label app of the registry pods: registry-lb would take itself for a registry; set fullnameOverride" $app) -}}
{{- end -}}
{{- if eq $app "registry" -}}
{{- fail "registry-lb's pods must not carry the label app: registry; set fullnameOverride" -}}
{{- end -}}
app: {{ $app }}
{{- end -}}

{{- define "registry-lb.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "registry-lb.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "registry-lb.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- /* The port of the first TCP listener. */ -}}
{{- define "registry-lb.listenPort" -}}
{{- regexFind "tcp://[^,]*" .Values.config.listenOn | regexFind "[0-9]+$" -}}
{{- end -}}

{{- define "registry-lb.adminPort" -}}
{{- regexFind "[0-9]+$" .Values.config.adminListenOn -}}
{{- end -}}

{{- define "registry-lb.backends" -}}
{{- .Values.config.backends | default (printf "k8s:///%s:registry" .Values.registry.service.name) -}}
{{- end -}}

{{- /* The seconds in a duration as Go writes it, rounded up. */ -}}
{{- define "registry-lb.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|h|m|s)" . -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (regexFind "^[0-9.]+" . | float64) (get $units $unit)) -}}
{{- end -}}
{{- ceil $sum | int -}}
{{- end -}}

{{- define "registry-lb.gracePeriod" -}}
{{- $delay := include "registry-lb.seconds" .Values.config.drainDelay | int -}}
{{- $timeout := include "registry-lb.seconds" .Values.config.drainTimeout | int -}}
{{- add .Values.preStopSleepSeconds $delay $timeout .Values.terminationMarginSeconds -}}
{{- end -}}

{{- /* What the "restricted" Pod Security Standard asks of a pod, and of a container. */ -}}
{{- define "registry-lb.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "registry-lb.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
