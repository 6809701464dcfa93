# `make` lists the targets. Two matter to a new user: `make demo` and `make test`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One flag set for everything that contains Kubernetes packages: the operator, its
# tests, the tools and the cluster share one build cache.
KUBE_GO := CGO_ENABLED=0 go
KUBE_FLAGS := -trimpath
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
ARCHS ?= amd64 arm64
LDFLAGS := -s -w -X main.version=$(VERSION)
CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt

# Packages whose tests run under the race detector.
RELAY := ./relay/... ./cmd/relay ./cmd/moq-load ./test/bench
# The cluster's program; its build of Kubernetes is cached.
CLUSTER := go run -C hack/cluster .

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z][a-z0-9-]*:.*##/ {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Kubernetes, operator, relay pod and a public client that streams through it; DEMO_ONCE=1 ends by itself
	@hack/demo.sh up

.PHONY: demo-down
demo-down: ## Remove all that the demo made
	@hack/demo.sh down

##@ Test

.PHONY: test
test: test-unit test-kube test-interop ## All tests that need no cluster, with all their set-up

.PHONY: test-unit
test-unit: test-relay test-operator ## Unit tests and fuzz seeds

.PHONY: test-relay
test-relay: ## The relay's, under the race detector, and the rules about the code
	CGO_ENABLED=1 go test -race -shuffle=on -timeout 20m $(RELAY)
	go test -run 'Alloc|Cost|Heap|Memory|Parked' ./relay/... # limits that the race detector would falsify
	go test -count=1 ./test/arch

.PHONY: test-operator
test-operator: ## The operator's and the tools'
	$(KUBE_GO) test $(KUBE_FLAGS) -shuffle=on ./api/... ./config/... ./controllers/... ./cmd/manager
	# Cached results of other modules would not see a change of the files of this one.
	$(KUBE_GO) test -C hack/tools $(KUBE_FLAGS) -count=1 ./...
	$(KUBE_GO) test -C hack/cluster $(KUBE_FLAGS) -count=1 . ./internal/...

.PHONY: test-kube
test-kube: cluster-build ## The operator against a real API server
	KUBEBUILDER_ASSETS=$$($(CLUSTER) bin) $(KUBE_GO) test $(KUBE_FLAGS) -tags kube -count=1 -timeout 15m ./test/kube/...

.PHONY: test-interop
test-interop: ## Relay processes and public clients (Node, Chromium) on loopback
	hack/deps.sh chromium
	hack/interop-deps.sh
	CGO_ENABLED=0 go test -tags interop -count=1 -timeout 20m ./test/interop/...

.PHONY: test-narrow
test-narrow: ## Viewers behind a narrow, lossy link between network namespaces, as root
	hack/deps.sh iproute2
	CGO_ENABLED=0 go test -tags narrow -count=1 -timeout 15m ./test/narrow/...

.PHONY: test-mesh
test-mesh: ## Rings, chains and full meshes of relays that lose publishers and links, as root; MESHTIME=10m: all of them, so long
	hack/deps.sh iproute2 nftables
	CGO_ENABLED=0 MESHTIME=$(MESHTIME) go test -tags mesh -count=1 -parallel 16 -timeout $(if $(MESHTIME),0 -v,15m) ./test/mesh

.PHONY: test-e2e
test-e2e: cluster-build images bin/manifests ## Real pods on a real kubelet, as root
	hack/deps.sh $(CLUSTER_PACKAGES)
	hack/interop-deps.sh
	$(KUBE_GO) test $(KUBE_FLAGS) -tags e2e -count=1 -timeout 40m -v ./test/e2e/...

.PHONY: soak
soak: ## SOAKTIME (default 30m) of peers that come and go, under the race detector; then nothing may be left
	SOAKTIME=$(or $(SOAKTIME),30m) CGO_ENABLED=0 go test -tags soak -trimpath -count=1 -timeout 0 -v ./test/soak

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME each (default 10s); what is found stays in testdata/fuzz; CONTINUE=1 goes on where a run was ended
	FUZZ_CONTINUE=$(CONTINUE) hack/fuzz.sh $(or $(FUZZTIME),10s)

.PHONY: bench
bench: ## The model's group benches beside the published figures (a minute); BENCH_PEER=FILE adds a peer's
	go run ./hack/bench $(if $(BENCH_PEER),-peer $(BENCH_PEER))

.PHONY: load
load: load-programs ## The short load scenarios of test/bench, held against their limits
	go run ./test/bench -short -only '$(ONLY)'

.PHONY: load-full
load-full: load-programs ## All of them (10 minutes), or ONLY=tables; RECORD=docs/benchmarks/results keeps the results
	go run ./test/bench -only '$(ONLY)' -record '$(RECORD)' -peer '$(PEER)'

.PHONY: peer-relay
peer-relay: ## The public Rust relay, built by cargo into bin/peer (an hour); then make load-full ONLY=relays PEER=bin/peer/bin/moq-relay
	hack/peer-bench/relay.sh

.PHONY: load-locks
load-locks: load-programs ## Who waits for which lock while 100 viewers watch: a mutex profile of the relay
	bin/moq-load fanout --viewers 100 --idle 0 --relay-cpus 0,1 --transport quic --profile mutex=bin/mutex.pprof,profile=bin/cpu.pprof \
	  --start 'bin/moq-relay serve --dev --listen 127.0.0.1:0 --status-listen 127.0.0.1:0 --log-level error --pprof'
	go tool pprof -top -nodecount=25 bin/moq-relay bin/mutex.pprof

.PHONY: peer-bench
peer-bench: ## The model against that of the public moq-net crate; skips where there is no cargo
	hack/peer-bench/run.sh

.PHONY: benchmarks-docs
benchmarks-docs: ## Draw docs/benchmarks anew from the results that are kept there
	$(KUBE_GO) run -C hack/benchmarks $(KUBE_FLAGS) . draw ../../docs/benchmarks

.PHONY: load-programs
load-programs:
	go build -o bin/moq-relay ./cmd/relay
	go build -o bin/moq-load ./cmd/moq-load

##@ Build

.PHONY: build
build: dist/ca-certificates.crt ## Static binaries for ARCHS (default: amd64 arm64) into dist/
	for arch in $(ARCHS); do \
	  out=dist/linux/$$arch; mkdir -p $$out; \
	  GOOS=linux GOARCH=$$arch $(KUBE_GO) build $(KUBE_FLAGS) -ldflags '$(LDFLAGS)' -o $$out/manager ./cmd/manager; \
	  GOOS=linux GOARCH=$$arch $(KUBE_GO) build $(KUBE_FLAGS) -ldflags '$(LDFLAGS)' -o $$out/moq-relay ./cmd/relay; \
	  GOOS=linux GOARCH=$$arch $(KUBE_GO) build $(KUBE_FLAGS) -ldflags '$(LDFLAGS)' -o $$out/moq-load ./cmd/moq-load; \
	done

dist/ca-certificates.crt: $(CA_BUNDLE)
	mkdir -p dist
	cp $(CA_BUNDLE) $@

$(CA_BUNDLE):
	hack/deps.sh ca-certificates

.PHONY: images
images: ## Both images for this machine, as tar files in dist/images; their names in dist/images/names
	$(MAKE) build ARCHS=$$(go env GOARCH)
	hack/deps.sh buildah
	hack/images.sh

.PHONY: cluster-build
cluster-build: ## Kubernetes itself, once; later runs take it from the cache
	$(CLUSTER) build

##@ Check

.PHONY: generate
generate: ## Deepcopy, CRD, RBAC and the chart's copies of them
	hack/generate.sh

.PHONY: manifests
manifests: generate ## The same as generate

.PHONY: fmt
fmt: bin/gofumpt ## Format all Go files
	bin/gofumpt -w $$(git ls-files '*.go' | grep -v zz_generated)

.PHONY: lint-fast
lint-fast: bin/gofumpt bin/staticcheck ## vet, staticcheck and gofumpt
	$(KUBE_GO) vet $(KUBE_FLAGS) ./...
	$(KUBE_GO) vet $(KUBE_FLAGS) -tags kube,interop,e2e,narrow,soak,mesh ./test/...
	$(KUBE_GO) vet -C hack/cluster $(KUBE_FLAGS) . ./internal/... # not ./...: hyperkube is all of Kubernetes
	CGO_ENABLED=0 GOFLAGS=-trimpath bin/staticcheck ./...
	unformatted=$$(bin/gofumpt -l $$(git ls-files '*.go' | grep -v zz_generated)); \
	  [ -z "$$unformatted" ] || { echo "not formatted, run make fmt: $$unformatted" >&2; exit 1; }

.PHONY: lint
lint: lint-fast bin/golangci-lint ## lint-fast and golangci-lint, whose first build takes ten minutes
	bin/golangci-lint run ./...

bin/golangci-lint: hack/tools/golangci-lint/go.mod
	mkdir -p bin
	$(KUBE_GO) build -C hack/tools/golangci-lint $(KUBE_FLAGS) -o $(CURDIR)/bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: verify
verify: bin/manifests ## Everything generated and pinned is up to date
	go mod tidy -diff
	go mod verify >/dev/null
	hack/verify-generated.sh
	bin/manifests check .
	$(KUBE_GO) run -C hack/benchmarks $(KUBE_FLAGS) . check ../../docs/benchmarks

bin/%: hack/tools/go.mod
	mkdir -p bin
	GOBIN=$(CURDIR)/bin $(KUBE_GO) install -C hack/tools $(KUBE_FLAGS) tool

bin/manifests: hack/tools/go.mod $(wildcard hack/tools/manifests/*.go)
	mkdir -p bin
	$(KUBE_GO) build -C hack/tools $(KUBE_FLAGS) -o $(CURDIR)/bin/manifests ./manifests

.PHONY: ci
ci: ## What CI runs: all of the above, Kubernetes compiling beside it
	hack/ci.sh

CLUSTER_PACKAGES := containerd runc containernetworking-plugins nftables iproute2 buildah
