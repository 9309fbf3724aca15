# The commands of the project; `make help` lists them. Commands that need a redis-server, a C compiler or
# the Node packages install what is missing, or name it if they cannot.

.DEFAULT_GOAL := help
SHELL := /bin/bash

# The packages to test and additional flags of go test: make test PACKAGES=./bullmq/... FLAGS=-v
# work stands for the packages of all modules that go.work lists; ./... leaves the nested modules out.
# For the benchmark: make bench FLAGS='-only process -rounds 1', make bench FLAGS=-write
# To run one spec by its title: make spec SPEC='renews locks'
PACKAGES ?= work
FLAGS ?=
SPEC ?=
# With DEPS=no commands do not install what is missing; they fail and name it.
export DEPS
# The time that make fuzz spends on each target.
FUZZTIME ?= 30s
# The reference of make parity: 6 (bullmq 6.7.0), 5 (5.81.5), or both.
BULLMQ ?= 5 6

MODULES = $(shell go list -m -f '{{.Dir}}')
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GO_FILES = $(shell find . -name node_modules -prune -o -name '*.go' -print)

.PHONY: help
help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: redis node ## show Node and Go sharing queues in the terminal
	@go run ./examples/demo

# The tests mostly wait, so that more packages run at once than there are processors. The largest suites each run in
# SPEC_PROCESSES processes (see internal/testkit/suite). The two that take longest begin first, or they would run on
# alone at the end. SPEC_PROCESSES=1 runs each suite in one process, like go test. Without debug information
# programs link faster. make lint vets the code. At its end, a program with the race detector sleeps for
# atexit_sleep_ms, by default a second.
SPEC_PROCESSES ?= 3
LONGEST := ./bullmq ./interop/tests
.PHONY: test test-fast
test test-fast: export SPEC_PROCESSES := $(SPEC_PROCESSES)
test: export GORACE ?= atexit_sleep_ms=50
test: PACKAGES := $(if $(filter file,$(origin PACKAGES)),$(LONGEST) work,$(PACKAGES))
test: redis node c-compiler ## run all tests with the race detector, against real Redis and Node
	go test -race -count=1 -p 4 -vet=off -ldflags=-w -timeout 15m $(PACKAGES) $(FLAGS)

test-fast: redis ## run the quick tests of the SDK without Node: under a minute
	go test -short -count=1 -p 4 -vet=off -ldflags=-w -timeout 3m ./bullmq/... ./internal/cron ./docs $(FLAGS)

.PHONY: test-long
test-long: redis node ## run in full, and without the race detector, the specs that make test shortens
	BULLMQ_LONG=1 go test -count=1 -timeout 8m ./internal/cron ./interop/tests ./bullmqhttp -ginkgo.focus 'ompared with|job for each request' $(FLAGS)

.PHONY: spec
spec: PACKAGES := $(if $(filter file,$(origin PACKAGES)),./bullmq,$(PACKAGES))
spec: redis ## run the specs whose title contains SPEC, in ./bullmq or PACKAGES
	@[ -n "$(SPEC)" ] || { echo "make spec needs the text of a title: make spec SPEC='renews locks'" >&2; exit 1; }
	go test -count=1 -timeout 7m $(PACKAGES) -ginkgo.focus '$(SPEC)' -ginkgo.fail-on-empty -ginkgo.succinct $(FLAGS)

.PHONY: chaos
chaos: redis node ## inject faults under load and check every job (FLAGS='-ginkgo.focus=…' for some; make test runs a short form)
	@go test -count=1 -timeout 30m -v ./interop/chaos -args -full -ginkgo.succinct $(FLAGS)
	@$(if $(FLAGS),: ,)EVERY_ORDER=1 go test -count=1 -timeout 7m ./interop/tests -ginkgo.focus 'in any order of four calls' -ginkgo.succinct

.PHONY: load
load: redis node ## run the load specs of make chaos with 2,000,000 jobs, and 1,000,000 delayed ones due in the same second
	@go test -count=1 -timeout 20m -v ./interop/chaos -args -full -jobs 2000000 -delayed 1000000 \
		-ginkgo.succinct -ginkgo.focus 'A load|same second' $(FLAGS)

.PHONY: parity
parity: redis node ## compare every scenario's effect on Redis with the Node library's (BULLMQ=6 or 5 for one version)
	@go build -o bin/paritycheck ./interop/paritycheck
	@bin/paritycheck -bullmq "$(BULLMQ)"

.PHONY: bench
bench: redis node ## measure speed, memory and latency compared with Node bullmq and asynq
	@go run ./bench $(FLAGS)

.PHONY: prometheus
prometheus: redis prometheus-server ## let a real Prometheus scrape a worker process and evaluate the alerts
	BULLMQ_PROMETHEUS=1 go test -count=1 -timeout 80s ./bullmqprom -ginkgo.focus 'A Prometheus server|The dashboard' $(FLAGS)

.PHONY: browser screenshots
browser: redis node chromium ## look at the pages of the dashboard with a real Chromium, beside Go and Node workers
	BULLMQ_BROWSER=1 go test -count=1 -timeout 6m ./dashboard/browsertest $(FLAGS)

screenshots: redis node chromium ## take the pictures of the documentation with a real Chromium
	BULLMQ_BROWSER=1 BULLMQ_SCREENSHOTS=1 go test -count=1 -timeout 6m ./dashboard/browsertest -ginkgo.label-filter screenshots $(FLAGS)

.PHONY: figures
figures: redis ## measure the dashboard with a million jobs, 500 queues, 20 viewers, and a flow of 10,000 jobs; nothing else may run
	BULLMQ_FIGURES=1 go test -count=1 -timeout 5m -v ./dashboard -ginkgo.v -ginkgo.focus 'without delay|costs Redis little' $(FLAGS)

.PHONY: release-test
release-test: ## release a copy of the tree with tools/release.sh, and install the command from it
	BULLMQ_RELEASE=1 go test -count=1 -timeout 9m ./tools/releasetest $(FLAGS)

.PHONY: fuzz
fuzz: ## fuzz the decoders of data from Redis, each target for FUZZTIME (30s)
	@FUZZTIME=$(FUZZTIME) tools/fuzz.sh $(PACKAGES)

.PHONY: lint
lint: lint-format lint-vet lint-staticcheck lint-modules lint-text lint-lua lint-vuln ## check format, vet, staticcheck, modules, stray addresses, our own Lua, vulnerabilities

.PHONY: lint-format lint-vet lint-staticcheck lint-modules lint-text lint-lua lint-vuln
lint-format:
	@unformatted=$$(gofmt -l $(GO_FILES)); [ -z "$$unformatted" ] || { printf 'make fmt would change:\n%s\n' "$$unformatted" >&2; exit 1; }
lint-vet:
	go vet work
lint-staticcheck:
	go run $(STATICCHECK) work
lint-modules:
	go mod verify
	@for module in $(MODULES); do echo "go mod tidy -diff in $$module"; GOWORK=off go -C "$$module" mod tidy -diff || exit 1; done
lint-text:
	tools/lint-text.sh
lint-lua:
	tools/lint-lua.sh
lint-vuln:
	tools/lint-vuln.sh

# Not part of make lint: building golangci-lint alone takes minutes.
.PHONY: lint-more
lint-more: ## check more, by golangci-lint (some minutes the first time)
	go run $(GOLANGCI) run ./...

.PHONY: build
build: ## compile every package
	go build work

.PHONY: cover
cover: redis node ## run all tests and print how much of the SDK they cover
	go test -count=1 -timeout 7m -coverpkg=./bullmq/... -coverprofile=coverage.out $(PACKAGES) $(FLAGS)
	@go tool cover -func=coverage.out | tail -n 1

.PHONY: composed
composed: redis ## write the Lua scripts as Redis runs them to bullmq/scripts/testdata/composed
	go test -count=1 ./bullmq/scripts -args -ginkgo.focus 'composed scripts' -update

.PHONY: fmt
fmt: ## format the Go files
	gofmt -l -w $(GO_FILES)

# Requirements of the commands above.

.PHONY: deps redis node c-compiler prometheus-server chromium
deps: redis node c-compiler ## install what the other commands need
redis:
	@tools/ensure-redis.sh
node:
	@tools/ensure-node-modules.sh
c-compiler:
	@tools/ensure-c-compiler.sh
prometheus-server:
	@tools/ensure-prometheus.sh
chromium:
	@tools/ensure-chromium.sh
