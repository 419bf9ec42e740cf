# `make` prints this help, made from the comments behind the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/pytest
# make integration KUBERNETES=1.36: the same tests on another version; `quintet build --help` names them.
export QUINTET_KUBERNETES := $(KUBERNETES)
# Otherwise every worker and every command that tests start would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

##@ Start here

.PHONY: demo
demo: setup ## Start a cluster, install Quintet and create one object of each kind: make demo [ONLY=jsonserver,checkup] [KEEP=1]
	@$(BIN)/quintet demo $(if $(ONLY),--only $(ONLY)) $(if $(KEEP),--keep)

.PHONY: test
test: setup ## Run what CI runs: checks, unit, integration, security, fault and end-to-end tests: make test [KIND=checkup]
	@tools/run-stages $(if $(KIND),$(addsuffix :KIND=$(KIND),unit integration e2e),check unit integration security faults e2e)

##@ Develop

.PHONY: setup
setup: $(STAMP) ## Install the locked dependencies into .venv

$(STAMP): requirements/dev.txt pyproject.toml tools/setup
	@tools/setup $(VENV)
	@touch $@

.PHONY: fmt
fmt: setup ## Format the code and apply automatic lint fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

.PHONY: check
check: setup ## Check formatting, lint, types, import contracts, test collection, generated files and commit messages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@MYPYPATH=images/checkups/lib $(BIN)/mypy --config-file= --strict $(wildcard images/checkups/*/*.py)
	@$(BIN)/lint-imports --no-cache
	@found=$$($(PYTEST) --collect-only -qqq tests) || { echo "$$found"; exit 1; }
	@tools/verify-generated
	@tools/check-commits

.PHONY: generate
generate: setup ## Generate files from the types: config, chart, bundle, catalog, two pages of docs
	@$(BIN)/python -m quintet.manifests

.PHONY: lock
lock: setup ## Resolve the dependencies and lock them with hashes
	@tools/lock $(BIN)/uv

# A cold build takes longer than a test may, so it runs before the tests, with its progress shown.
.PHONY: kubernetes
kubernetes: setup ## Build Kubernetes into the user's cache
	@$(BIN)/quintet build

.PHONY: nats
nats: setup ## Build the NATS server of the tests into the user's cache
	@PYTHONPATH=tests $(BIN)/python -m kit.nats.server

.PHONY: images
images: setup ## Build Kubernetes and, as root on Linux, the container runtime and images of a node
	@$(BIN)/quintet build $(if $(filter Linux0,$(shell uname -s)$(shell id -u)),--node)

##@ Test

# ALL=1 adds the tests marked `exhaustive`, KIND selects those of one kind, RECORD=1 keeps audit logs for permissions.
PARALLEL := -n $(or $(WORKERS),3) --dist worksteal
run_tests = QUINTET_TEST_TIMES=build/times/$@$(KUBERNETES).json $(if $(RECORD),QUINTET_RECORD_RIGHTS=$(CURDIR)/build/rights) \
  $(PYTEST) $(if $(ALL),,-m "not exhaustive") $(if $(KIND),--kind $(KIND))

.PHONY: test-all
test-all: setup ## Run all tests, for a release: also exhaustive, packaging and permission tests, and Kubernetes 1.36
	@rm -rf build/rights
	@tools/run-stages check unit:ALL=1 $(addsuffix :ALL=1:RECORD=1,integration security faults e2e packaging) permissions \
	  integration:KUBERNETES=1.36

.PHONY: unit
unit: setup ## Run the unit tests (no cluster)
	@$(run_tests) -n 2 --dist worksteal tests/unit

.PHONY: explore
explore: setup ## Run the property tests with new random examples
	@QUINTET_EXPLORE=1 $(PYTEST) tests/unit -m hypothesis

.PHONY: fuzz
fuzz: setup ## Fuzz the parsers, guided by coverage: make fuzz [FOR=60] [TARGET=http-server]; Linux on x86-64
	@PYTHONPATH=tests $(BIN)/python -m fuzz campaign --seconds $(or $(FOR),60) $(TARGET)

.PHONY: integration
integration: kubernetes nats ## Run the tests on a real control plane; KUBERNETES=1.36 selects another version
	@$(run_tests) $(PARALLEL) tests/integration

.PHONY: security
security: kubernetes ## Try attacks of users and of stolen tokens on a real API server
	@$(run_tests) tests/security

.PHONY: faults
faults: kubernetes nats ## Run the tests with a failing API server, network or leader
	@$(run_tests) $(PARALLEL) tests/faults

.PHONY: faults-all
faults-all: kubernetes nats ## Replay the story of each kind with each fault at each place; goes on after an interruption: make faults-all [STORY=checkup] [FRESH=1]
	@PYTHONPATH=tests $(BIN)/python -m kit.fault_plans $(if $(STORY),--story $(STORY)) $(if $(FRESH),--fresh)

.PHONY: e2e
e2e: images ## Run the tests on a real node (root on Linux; skipped with a reason elsewhere)
	@$(run_tests) tests/e2e

.PHONY: packaging
packaging: images ## Run the tests of every install method with real Helm and OLM; those with a node need root on Linux
	@$(run_tests) tests/packaging

.PHONY: permissions
permissions: setup ## Compare the permissions of ServiceAccounts with those used in test runs with RECORD=1
	@PYTHONPATH=tests $(BIN)/python -m kit.permissions.report build/rights

.PHONY: test-times
test-times: ## Run `make test` and show the slowest tests and fixtures; build/test-times.json has all durations
	@rm -rf build/times
	@$(MAKE) test
	@PYTHONPATH=tests $(BIN)/python -m kit.plugins.durations build/times build/test-times.json

.PHONY: stress
stress: images nats ## Run tests repeatedly under CPU load: make stress N=20 K=expression [IN=tests/integration] [LOAD=4]
	@$(PYTEST) $(if $(ALL),,-m "not exhaustive") -q $(PARALLEL) --rounds $(or $(N),20) --load $(or $(LOAD),4) \
	  $(if $(K),-k "$(K)") $(or $(IN),tests/integration tests/faults)

.PHONY: coverage
coverage: kubernetes nats ## Run unit and integration tests with a coverage report
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest $(if $(ALL),,-m "not exhaustive") $(PARALLEL) tests/unit tests/integration
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

##@ Release

.PHONY: release
release: setup ## Build a release into dist: make release VERSION=0.1.0 [REPLACES=0.0.9 CATALOG=its-catalog.yaml] [SCORECARD=image]
	@$(BIN)/python -m quintet.release "$(VERSION)" --replaces "$(REPLACES)" --scorecard-image "$(SCORECARD)" $(if $(CATALOG),--catalog "$(CATALOG)")

.PHONY: record
record: setup ## Record the CRDs of this version as released; unit tests then reject incompatible changes
	@PYTHONPATH=tests $(BIN)/python -m kit.manifests.released_crds

##@ Measure

.PHONY: bench
bench: setup ## Benchmark Quintet against controller-runtime and Kopf with 500 objects (about 12 minutes)
	@$(BIN)/python -m benchmarks all

.PHONY: bench-full
bench-full: setup ## Benchmark with 2,000 objects, scaling to 10,000 objects with 100,000 children, 200 StatefulClusters, and events
	@$(BIN)/python -m benchmarks all statefulcluster publisher --count 2000 --samples 300 --sizes 1000 3000 10000

##@ Clean up

.PHONY: clean
clean: ## Stop the embedded clusters of this user and delete build products (the shared cache stays)
	@if [ -x $(BIN)/quintet ]; then $(BIN)/quintet down --all; fi
	@rm -rf build dist $(VENV)

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "; printf "\nUsage: make \033[1m<target>\033[0m\n"} \
	  /^##@/ {printf "\n\033[1m%s\033[0m\n", substr($$0, 5)} \
	  /^[a-zA-Z0-9_-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
