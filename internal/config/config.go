// SPDX-License-Identifier: Apache-2.0

// Package config reads what registry-lb is told by its environment.
//
// Every variable is one field of Config; its tags are the only place where its default, its bounds, its example and
// its meaning are written down. The help text and the tables in the documentation are made from them.
package config

import (
	"time"

	"github.com/networkservicemesh/registry-lb/internal/logging"
)

// Prefix stands in front of the name of every variable, as with all NSM commands.
const Prefix = "NSM"

// Config is what Load makes of the environment. It is read only once it is loaded.
//
// Tags: default is used when the variable is not set, example is shown when a value is refused (the default when there
// is none), min and max bound a duration (both included), desc is the meaning.
type Config struct {
	ListenOn               ListenAddrs    `split_words:"true" default:"tcp://:5002" example:"tcp://:5002,unix:///run/registry-lb/registry.sock" desc:"Where clients connect: tcp://host:port or unix:///path, several separated by commas."`
	Backends               Backends       `split_words:"true" default:"k8s:///registry-k8s:registry" desc:"Where the replicas come from: k8s://[namespace]/service[:port name or number] (no namespace: the own one), static://host:port,host:port or file:///path (a host:port a line, # for comments, followed live)."`
	Store                  Store          `split_words:"true" default:"shared" desc:"Whether each replica knows all NSEs (shared, as registry-k8s) or only its own (partitioned, as registry-memory)."`
	TLS                    TLSMode        `split_words:"true" default:"spiffe" example:"insecure" desc:"Transport security: spiffe (certificates of the Workload API at SPIFFE_ENDPOINT_SOCKET) or insecure (loopback and tests only)."`
	RegistryServerPolicies Masks          `split_words:"true" default:"etc/nsm/opa/common/.*.rego,etc/nsm/opa/registry/.*.rego,etc/nsm/opa/server/.*.rego" desc:"Policy files by which callers are checked, as masks of registry-k8s, several separated by commas; etc/nsm/opa stands for those that NSM ships. Set but empty: no check."`
	RegistryClientPolicies Masks          `split_words:"true" default:"etc/nsm/opa/common/.*.rego,etc/nsm/opa/registry/.*.rego,etc/nsm/opa/client/.*.rego" desc:"Policy files by which answers of replicas to Register and Unregister are checked, as masks likewise. What is refused was not registered. Set but empty: no check."`
	BackendIdentities      IDPatterns     `split_words:"true" default:"" example:"spiffe://k8s.nsm/ns/nsm-system/pod/registry-k8s-*" desc:"SPIFFE IDs that replicas may have, several separated by commas; each segment of a path may have the wildcards of path.Match. Empty: any of a trusted domain."`
	NoBackendWait          time.Duration  `split_words:"true" default:"5s" min:"0s" max:"10m" desc:"How long a call waits for a first replica while there is none, within its own deadline."`
	MaxTokenLifetime       time.Duration  `split_words:"true" default:"10m" min:"1s" max:"24h" desc:"How long an NSE that is registered without an expiration time may live without a refresh, as in registry-k8s."`
	ProbeInterval          time.Duration  `split_words:"true" default:"1s" min:"100ms" max:"10m" desc:"How often each replica is asked for its health."`
	ProbeTimeout           time.Duration  `split_words:"true" default:"1s" min:"10ms" max:"10m" desc:"How long its answer may take; after two missing answers, or a lost connection, the replica is skipped."`
	JoinDelay              time.Duration  `split_words:"true" default:"2s" min:"0s" max:"10m" desc:"How long a new replica is known before it is given new keys, so that all registry-lb replicas see it by then."`
	EmptyGrace             time.Duration  `split_words:"true" default:"30s" min:"0s" max:"1h" desc:"How long the last replicas are kept, while they answer probes, when all vanish at once."`
	DrainDelay             time.Duration  `split_words:"true" default:"5s" min:"0s" max:"10m" desc:"At shutdown: how long calls are still taken after /readyz says not ready."`
	DrainTimeout           time.Duration  `split_words:"true" default:"20s" min:"0s" max:"1h" desc:"At shutdown: how long calls in flight may take, after the drain delay, before they are cut."`
	AdminListenOn          ListenAddr     `split_words:"true" default:"tcp://:9090" desc:"Where health, metrics and the read-only API are served over plain HTTP: tcp://host:port or unix:///path."`
	LogFormat              logging.Format `split_words:"true" default:"json" desc:"Format of the log on standard error: json or console."`
	LogLevel               logging.Level  `split_words:"true" default:"INFO" desc:"Lowest level that is logged: TRACE, DEBUG, INFO, WARN, ERROR or FATAL."`
	PprofEnabled           bool           `split_words:"true" default:"false" example:"true" desc:"Whether profiles are served."`
	PprofListenOn          HostPort       `split_words:"true" default:"localhost:6060" desc:"Where profiles are served over plain HTTP: host:port."`
}
