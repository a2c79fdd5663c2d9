# SPDX-License-Identifier: Apache-2.0
#
# Needs Go (the version of go.mod or later) and make. Everything else is built from Go modules when it is needed.

.SUFFIXES:

GO = go
VERSION = $$(git describe --tags --always --dirty 2>/dev/null || echo unknown)
IMAGE = registry-lb:dev

# The linter is built once for all checkouts, and again for another version of it or of Go.
GOLANGCI_LINT_VERSION = v2.15.0

TEST_FLAGS =
TEST_TIMEOUT = 10m
BENCH = .
BENCH_FLAGS = -benchmem

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: build ## Show, in one process and without a cluster, what registry-lb does
	@./bin/registry-lb demo

.PHONY: build
build: ## Build bin/registry-lb, static
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/registry-lb ./cmd/registry-lb

# One package at a time, once all is built: the demo's promises are about seconds, which other tests must not take away.
# The race detector needs cgo, hence a C compiler with the headers of a C library, and not every platform has it. All of
# that is found out by building the one package that needs it; the tests would build it anyway.
.PHONY: test
test: ## Run all tests of this module, with the race detector if it can be had
	@race=-race; \
	$(GO) build -race runtime/cgo >/dev/null 2>&1 || { \
		race=; \
		echo "NOTICE: tests run without the race detector: it needs cgo and a C compiler (such as gcc), and one of them is missing"; \
	}; \
	$(GO) build $$race ./... && \
	$(GO) test $$race -p 1 -timeout $(TEST_TIMEOUT) $(TEST_FLAGS) ./...

.PHONY: bench
bench: ## Run the benchmarks of the hot path
	@$(GO) test -run '^$$' -bench '$(BENCH)' $(BENCH_FLAGS) ./pkg/shard/... ./pkg/endpoints/... ./pkg/proxy/... ./internal/identity/... ./internal/policy/...

# All modules below are checked: end-to-end tests and tools have modules of their own. Of e2e/kube, e2e/helm and e2e/dns the
# format only: to vet their few lines, all of Kubernetes would have to be compiled, which takes ten minutes.
.PHONY: lint
lint: ## Check format, go vet and golangci-lint (with staticcheck)
	@unformatted=$$(gofmt -l $$(find . -name '*.go' ! -path './.*' ! -path '*/testdata/*')) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w:"; echo "$$unformatted"; exit 1; fi
	@set -e; \
	cache=$${XDG_CACHE_HOME:-$${HOME:-/nonexistent}/.cache}/registry-lb/bin; \
	mkdir -p "$$cache" 2>/dev/null && [ -w "$$cache" ] || { cache='$(CURDIR)/.bin'; mkdir -p "$$cache"; }; \
	linter=$$cache/golangci-lint-$(GOLANGCI_LINT_VERSION)-$$($(GO) env GOVERSION); \
	if [ ! -x "$$linter" ]; then \
		echo "building golangci-lint $(GOLANGCI_LINT_VERSION), once; this takes a few minutes"; \
		work=$$(mktemp -d "$$cache/build.XXXXXX"); \
		trap 'rm -rf "$$work"' EXIT; \
		GOBIN="$$work" GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION); \
		mv "$$work/golangci-lint" "$$linter"; \
	fi; \
	for mod in $$(find . -name go.mod ! -path './.*' ! -path '*/testdata/*' ! -path './e2e/kube/*' ! -path './e2e/helm/*' ! -path './e2e/dns/*' | sort); do \
		dir=$$(dirname "$$mod"); \
		echo "lint $$dir"; \
		( cd "$$dir" && $(GO) vet ./... && "$$linter" run --allow-parallel-runners --config '$(CURDIR)/.golangci.yml' ./... ); \
	done

.PHONY: docs
docs: ## Write the tables of variables into the documents
	@$(GO) test -count=1 ./internal/config -run '^TestDocumentationTables$$' -update

# The same image as Dockerfile makes, but of the binary that is there, without an engine and without a registry.
.PHONY: image
image: build ## Write the container image as an archive, bin/registry-lb.tar, for docker load or ctr images import
	@cd e2e && $(GO) run ./cluster image '$(IMAGE)' ../bin/registry-lb ../bin/registry-lb.tar
	@echo "bin/registry-lb.tar: image $(IMAGE)"

# One package at a time: some start many processes. Verbose where there are figures and seeds to be seen. Go's test cache
# does not see that the chaos test builds the binary.
.PHONY: e2e
e2e: ## Run the tests with real registry chains, and those on a real Kubernetes (as root); print how long failovers take
	cd e2e && $(GO) test -p 1 -timeout 20m $(TEST_FLAGS) ./internal/... ./sandbox ./identity
	cd e2e && $(GO) test -v -timeout 10m $(TEST_FLAGS) ./model
	cd e2e && $(GO) test -v -count=1 -timeout 20m $(TEST_FLAGS) ./chaos
	cd e2e && $(GO) test -timeout 10m -run '^$$' -bench . -benchtime 1x ./chaos
	@$(MAKE) --no-print-directory e2e-cluster

# What the machine lacks is said before anything is built for ten minutes.
.PHONY: cluster-binaries
cluster-binaries:
	@cd e2e && CGO_ENABLED=0 $(GO) build -o ../bin/e2e/cluster ./cluster && ../bin/e2e/cluster check
	@e2e/build kube >/dev/null && e2e/build helm >/dev/null && e2e/build dns >/dev/null
	@e2e/workload/build bin/e2e/images

.PHONY: cluster-up
cluster-up: cluster-binaries ## Bring up a Kubernetes of two nodes on this machine, as root, with the images of the tests
	@bin/e2e/cluster up --kube "$$(e2e/build kube)" --dns "$$(e2e/build dns)" --images bin/e2e/images
	@echo "kubectl and helm: bin/e2e/cluster exec -- $$(e2e/build kube)/kubectl get nodes; $$(e2e/build helm)/helm"

.PHONY: cluster-down
cluster-down: ## Take that Kubernetes down, whatever is left of it
	@cd e2e && CGO_ENABLED=0 $(GO) build -o ../bin/e2e/cluster ./cluster && ../bin/e2e/cluster down

SCENARIOS = .
SCENARIOS_ENV = E2E_KUBE="$$(e2e/build kube)" E2E_HELM="$$(e2e/build helm)" E2E_DNS="$$(e2e/build dns)"
RUN_SCENARIOS = '$(CURDIR)/bin/e2e/scenarios.test' -test.v -test.timeout 40m -test.run '$(SCENARIOS)'

.PHONY: scenarios
scenarios: ## Run the scenarios in the cluster that make cluster-up has brought up; SCENARIOS=PATTERN chooses
	@cd e2e && $(GO) test -c -o ../bin/e2e/scenarios.test ./scenarios
	@export $(SCENARIOS_ENV); cd e2e/scenarios && '$(CURDIR)/bin/e2e/cluster' exec -- $(RUN_SCENARIOS)

.PHONY: e2e-cluster
e2e-cluster: cluster-binaries ## Bring the cluster up, run all scenarios, and take it down
	@cd e2e && $(GO) test -c -o ../bin/e2e/scenarios.test ./scenarios
	@export $(SCENARIOS_ENV); cd e2e/scenarios && '$(CURDIR)/bin/e2e/cluster' run --kube "$$E2E_KUBE" --dns "$$E2E_DNS" \
		--images '$(CURDIR)/bin/e2e/images' -- $(RUN_SCENARIOS)

# Go's test cache does not see changes to files outside the module, and the manifests are.
.PHONY: manifests
manifests: ## Check the Helm chart and the kustomize component: lint, schema, variables, metrics
	cd e2e/manifests && $(GO) test -count=1 -timeout 10m $(TEST_FLAGS) ./...

.PHONY: kube
kube: ## Build the Kubernetes of the tests, once; prints the folder that has it, with kubectl
	@e2e/build kube

.PHONY: soak
soak: ## Run the random tests for longer: ten times the steps of the model, half an hour of chaos
	cd e2e && $(GO) test -v -timeout 60m $(TEST_FLAGS) -run 'Store$$|Views' ./model -rapid.checks=1000
	cd e2e && CHAOS_DURATION=30m $(GO) test -v -count=1 -timeout 60m $(TEST_FLAGS) -run '^TestChaos$$' ./chaos

.PHONY: clean
clean: ## Remove what was built here
	@rm -rf bin .bin
