# Capstan's build. It needs Go, make and a Linux machine: no C compiler, no container engine, no root.
# `make` or `make help` lists the targets. CI runs the same ones (.ci/run).

# Go is found in PATH or where its own installer puts it; the sandbox looks for `go` in PATH, so it is put there.
GO ?= $(or $(shell command -v go 2>/dev/null),/usr/local/go/bin/go)
ifneq ($(findstring /,$(GO)),)
export PATH := $(patsubst %/,%,$(dir $(GO))):$(PATH)
endif

# The sandbox compiles Kubernetes, etcd and Cluster API itself, with these very settings. Go's build cache tells packages
# apart by them, so with one set of flags Capstan, its tests and the sandbox compile client-go and apimachinery once and
# not three times. Don't add a flag that changes how packages are compiled (-race, -gcflags, another GOAMD64) here.
# -buildvcs changes the link alone; only bin/capstan is stamped with its commit, and only where git can tell it: in a
# checkout of another user, or without git, the build would fail.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
export GOWORK := off

STAMP := $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)

# Every Go module of the repository that is ours to test and lint.
MODULES := . sandbox

TOOLS := bin/tools
CONTROLLER_GEN := $(TOOLS)/controller-gen
GOLANGCI_LINT := $(TOOLS)/golangci-lint

# Links to the programs of a control plane, for tests that start one themselves.
ASSETS := bin/assets

# What `make sandbox`, `make demo` and `make bench` start with and go to.
FROM ?= v1.13.4
TO ?= v1.14.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Build

.PHONY: build
build: capstan sandbox-binary ## build bin/capstan and bin/sandbox

# Go's own cache decides what has to be compiled, so these run every time.
.PHONY: capstan sandbox-binary
capstan:
	$(GO) build -buildvcs=$(STAMP) -ldflags '-s -w' -o bin/capstan ./cmd/capstan
sandbox-binary:
	cd sandbox && $(GO) build -ldflags '-s -w' -o ../bin/sandbox ./cmd/sandbox

.PHONY: images
images: sandbox-binary ## build everything a sandbox runs into its cache (15 minutes the first time)
	bin/sandbox build --capi $(FROM),$(TO)

.PHONY: clean
clean: ## remove what was built here; caches of Go and of the sandbox stay
	rm -rf bin

##@ Test

.PHONY: test
test: build images assets image-tools ## all tests: unit, against a real API server, and the stories in a real sandbox
	KUBEBUILDER_ASSETS=$(CURDIR)/$(ASSETS) CAPSTAN_SANDBOX_BIN=$(CURDIR)/$(ASSETS) $(MAKE) --no-print-directory test-unit
	$(MAKE) --no-print-directory test-scenarios

.PHONY: assets
assets: sandbox-binary ## link the programs of a control plane into bin/assets, for tests that start one themselves
	@set -e; dir=$$(bin/sandbox build --print-assets); mkdir -p $(ASSETS); \
		ln -sf $$(readlink -f $$dir/etcd) $$(dirname $$(readlink -f $$dir/kube-apiserver))/kube-* $(ASSETS)

.PHONY: image-tools
image-tools: ## install what disk images for tests are made with, where it is missing: Debian packages, as root
	hack/image-tools.sh

# Tests that need an API server run where KUBEBUILDER_ASSETS names a directory with etcd and kube-apiserver, those of the
# node agent where CAPSTAN_SANDBOX_BIN names one that also has the other programs of a control plane. Where they don't, the
# tests are skipped and say so. CAPSTAN_SCENARIOS= skips test/scenarios.
.PHONY: test-unit
test-unit: ## unit tests of all modules: no sandbox, seconds
	CAPSTAN_SCENARIOS= $(GO) test ./...
	cd sandbox && $(GO) test -timeout 20m ./...

# The cases on an API server, and the stories, each in a sandbox of its own: one package after the other, since two cores
# carry one sandbox. `go test ./test/scenarios/...` does the same, builds what it needs, and lets the sandboxes wait for
# each other.
.PHONY: test-scenarios
test-scenarios: build assets ## the cases and the stories of test/scenarios
	CAPSTAN_SCENARIOS=$(CURDIR)/bin KUBEBUILDER_ASSETS=$(CURDIR)/$(ASSETS) $(GO) test -count=1 -p 1 -timeout 60m -v ./test/scenarios/...
	cd sandbox && CAPSTAN_METAL_STORY=1 $(GO) test -count=1 -timeout 20m -v -run TestRollOnBareMetal ./cmd/sandbox

# Each seed upgrades a small platform twice while requests are refused, cut, slowed and answered in vain, and Capstan is
# killed. `make test` tries two.
DISTURBANCES ?= 60

.PHONY: chaos
chaos: build images ## disturb upgrades in many ways: DISTURBANCES=60 seeds
	@dir=$$(bin/sandbox build --print-assets) && KUBEBUILDER_ASSETS=$$dir CAPSTAN_DISTURBANCES=$(DISTURBANCES) \
		$(GO) test -count=1 -timeout 120m -v -run Disturbances ./test/scenarios/cases

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME=60s and show a table
	GO=$(GO) hack/fuzz.sh

.PHONY: bench
bench: build images ## time clusterctl and Capstan side by side, and a plan on 10,000 Machines beside a plain list
	$(GO) build -ldflags '-s -w' -o bin/bench ./bench
	bin/bench --capstan bin/capstan --sandbox bin/sandbox --from $(FROM) --to $(TO) $(BENCH_ARGS)

##@ Check

.PHONY: lint
lint: $(GOLANGCI_LINT) ## run golangci-lint with the project's rules over all modules
	@failed=0; for m in $(MODULES); do echo "lint $$m"; \
		(cd $$m && $(CURDIR)/$(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml ./...) || failed=1; \
	done; exit $$failed

.PHONY: generate
generate: $(CONTROLLER_GEN) ## write deepcopy functions and CRDs from the API types, and a page for each check
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd
	$(GO) run ./hack/checkdocs docs/checks

.PHONY: tidy
tidy: ## bring go.mod and go.sum of all modules in order
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy) || exit 1; done

.PHONY: verify
verify: ## what CI checks before the tests: generated files, modules, lint, clean tree
	hack/verify.sh $(MODULES)

# Tools are built from pinned versions when first needed. golangci-lint has a module of its own: its several hundred
# dependencies would otherwise choose the versions of everybody else's.
$(CONTROLLER_GEN): hack/tools/go.mod hack/tools/go.sum
	cd hack/tools && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(GOLANGCI_LINT): hack/tools/golangci/go.mod hack/tools/golangci/go.sum
	cd hack/tools/golangci && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

##@ See it work

.PHONY: demo
demo: build images ## a real management cluster, upgraded before your eyes
	CAPSTAN=bin/capstan SANDBOX=bin/sandbox FROM=$(FROM) TO=$(TO) hack/demo.sh

.PHONY: sandbox
sandbox: sandbox-binary ## start a management cluster with a workload cluster of 3 + 3 machines, to play with
	bin/sandbox up --capi $(FROM) --offer $(TO) --clusters 1 --control-planes 3 --workers 3

.PHONY: sandbox-metal
sandbox-metal: sandbox-binary ## start one with a workload cluster on simulated bare metal: HOSTS=5 for 3 + 2 machines
	bin/sandbox up --name metal --capi $(FROM) --offer $(TO) --metal --hosts $(or $(HOSTS),5) --control-planes 3 --workers 2
