# Everything one types while working on the console. `make` alone lists it.

SHELL := bash
.DEFAULT_GOAL := help

# ARGS are handed on: make run ARGS="--listen 127.0.0.1:8090", make test ARGS="-run Claim".
ARGS ?=
# GOTEST is how `make test` runs the tests; .ci/run puts one here that counts.
GOTEST ?= go test
PACKAGES ?= ./...
# POSTGRES is the version of the server to use, such as 17; by default what is on this machine. .ci/setup fetches others.
POSTGRES ?=
POSTGRES_BIN = bin=$$(.ci/setup --print-bin $(POSTGRES)) && CONSOLE_POSTGRES_BIN=$$bin

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The version is stamped here and not by the go command, which refuses to look at a
# repository that belongs to another user.
BUILD := go build -buildvcs=false -trimpath -ldflags "-X main.version=$(VERSION)"

# The race detector needs a C compiler.
RACE = $(if $(shell command -v "$$(go env CC)"),-race)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Run everything on this machine: database, identity provider, console (ARGS=…, POSTGRES=…)
	@$(POSTGRES_BIN) exec bin/console dev $(ARGS)

.PHONY: build
build: ## Build bin/console
	@mkdir -p bin
	$(BUILD) -o bin/console ./cmd/console

.PHONY: test
test: ## Run the tests, with the race detector (PACKAGES=…, ARGS=…, POSTGRES=17)
ifneq ($(CI),)
	@[[ -n "$(RACE)" ]] || { echo "test: no C compiler, so no race detector: CI must have one" >&2; exit 1; }
else
	@[[ -n "$(RACE)" ]] || echo "test: no C compiler, so these tests run without the race detector" >&2
endif
	@$(POSTGRES_BIN) $(GOTEST) $(RACE) $(ARGS) $(PACKAGES)

.PHONY: test-matrix
test-matrix: ## Run the tests that use a database on PostgreSQL 15, 16, 17 and 18 (VERSIONS="16 18", PACKAGES=…)
	@PACKAGES="$(PACKAGES)" GOTEST="$(GOTEST)" .ci/matrix $(VERSIONS)

.PHONY: check
check: generate-check format-check vet staticcheck ## Run every check but the tests

.PHONY: generate
generate: ## Generate the Go code of the templates and docs/configuration.md
	go tool templ generate -log-level warn
	@$(MAKE) --no-print-directory build
	@bin/console config >docs/configuration.md.part && mv docs/configuration.md.part docs/configuration.md

# Compares with what was there, not with git: work in progress is no failure.
GENERATED = find . '(' -name '*_templ.go' -o -path ./docs/configuration.md ')' -not -path '*/node_modules/*' -exec sha256sum {} + | sort -k 2
.PHONY: generate-check
generate-check:
	@before=$$($(GENERATED)) && $(MAKE) --no-print-directory generate && after=$$($(GENERATED)) && \
	diff <(echo "$$before") <(echo "$$after") || { echo "generated code was stale; commit what is there now" >&2; exit 1; }

.PHONY: format-check
format-check:
	@files=$$(find . -name '*.go' -not -path '*/node_modules/*' -exec gofmt -l {} +) && \
	[[ -z "$$files" ]] || { echo "not formatted (gofmt -w):" $$files >&2; exit 1; }

.PHONY: vet
vet:
	go vet -tags walks,ha,torture ./...

.PHONY: staticcheck
staticcheck:
	go tool staticcheck -tags walks,ha,torture ./...

.PHONY: e2e
e2e: ## Walk through the console in a real browser, behind real proxies (ARGS="-run TestWalks/development")
	@.ci/walks $(ARGS)

.PHONY: screenshots
screenshots: ## Take the pictures in docs/screenshots, of a development instance in a real browser
	@.ci/setup screenshots && $(POSTGRES_BIN) SCREENSHOTS="$(CURDIR)/docs/screenshots" go test ./e2e -tags walks -count=1 -run '^TestScreenshots$$'

.PHONY: ha
ha: ## Lose primaries under two replicas, on PostgreSQL 16 and 18 (6 min, VERSIONS=18)
	@.ci/ha $(VERSIONS)

.PHONY: torture
torture: ## Torture four replicas and their database by a plan from a seed (2 min, DURATION=10m SEED=7, POSTGRES=18)
	@DURATION="$(DURATION)" SEED="$(SEED)" POSTGRES="$(POSTGRES)" .ci/torture

.PHONY: model
model: ## Check the model of the claim protocol, and that it can fail (2 min)
	@.ci/model

.PHONY: mutations
mutations: ## Take each protecting line away and see its test fail (30 min, RUN="The fence")
	@$(POSTGRES_BIN) go run ./internal/mutations $(if $(RUN),-run "$(RUN)",-o docs/model/mutations.md)

.PHONY: fuzz
fuzz: ## Fuzz everything that reads what comes from outside, 1 min each, two at a time (FUZZTIME=10s, PACKAGES=…)
	@.ci/fuzz $(PACKAGES)

.PHONY: check-alerts
check-alerts: ## Check and test the Prometheus alert rules
	@promtool=$$(.ci/setup --print-promtool) && cd deploy/prometheus && \
	"$$promtool" check rules rules.yml && "$$promtool" test rules rules_test.yml

# Of each the last line is the result: the one that begins with its name, wherever it was printed.
last = awk '/^$(1): / { last = $$0; next } { print } END { print last }'

.PHONY: bench
bench: bench-size bench-lateness bench-scale bench-burst bench-pages ## Measure everything, one after the other (40 min)

.PHONY: bench-lateness
bench-lateness: ## Measure how late one replica admits what is due, alone and under a web load (5 min; LATENESS_SECONDS=20 to try)
	@set -o pipefail && bin=$$(.ci/setup --print-bin) && \
	CONSOLE_POSTGRES_BIN=$$bin go test ./e2e -run '^$$' -bench '^BenchmarkLateness$$' -benchtime 1x | \
	$(call last,lateness)

.PHONY: bench-burst
bench-burst: ## Measure 20,000 Schedules due at one instant, and what others make of as many (15 min; SIZE=2000 ROUNDS=1 to try)
	@set -o pipefail && bin=$$(.ci/setup --print-bin) && peers=$$(.ci/setup --print-peers) && \
	env $$peers CONSOLE_POSTGRES_BIN=$$bin BURST_SIZE=$(SIZE) BURST_ROUNDS=$(ROUNDS) BURST_WAYS='$(WAYS)' \
	go test ./e2e -run '^$$' -bench '^BenchmarkBurst$$' -benchtime 1x -timeout 60m | \
	$(call last,burst)

.PHONY: bench-pages
bench-pages: ## Measure the main pages beside a million Runs, and River's console beside a million jobs (10 min; PAGES_RUNS=20000 to try)
	@set -o pipefail && bin=$$(.ci/setup --print-bin) && peers=$$(.ci/setup --print-peers) && \
	env $$peers CONSOLE_POSTGRES_BIN=$$bin go test ./e2e -run '^$$' -bench '^BenchmarkPages$$' -benchtime 1x -timeout 60m | \
	$(call last,pages)

.PHONY: bench-claim
bench-claim: ## Measure the claim beside a thousand, 100,000 and a million Schedules (5 min)
	@$(POSTGRES_BIN) go test ./internal/scheduler -run '^$$' -bench '^BenchmarkClaim$$' -benchtime 200x -timeout 30m

.PHONY: bench-scale
bench-scale: ## Measure claim and commit beside a million Schedules and beside a thousand (2 min; SCHEDULES=20000 to try, RUNS=1000000)
	@set -o pipefail && $(POSTGRES_BIN) SCALE_SCHEDULES=$(SCHEDULES) SCALE_RUNS=$(RUNS) \
	go test ./internal/scheduler -run '^$$' -bench '^BenchmarkScale$$' -benchtime 1x -timeout 5h 2>/dev/null | \
	$(call last,scale)

.PHONY: bench-size
bench-size: ## Measure how soon serve is ready, its memory beside 10,000 Schedules, and its size (2 min)
	@set -o pipefail && bin=$$(.ci/setup --print-bin) && \
	CONSOLE_POSTGRES_BIN=$$bin go test ./e2e -run '^$$' -bench '^BenchmarkSize$$' -benchtime 1x | \
	$(call last,size)

.PHONY: bench-growth
bench-growth: ## Measure the memory of one replica, its pages and a stream for half an hour (GROWTH_MINUTES=2 to try)
	@set -o pipefail && bin=$$(.ci/setup --print-bin) && \
	CONSOLE_POSTGRES_BIN=$$bin go test ./e2e -run '^$$' -bench '^BenchmarkGrowth$$' -benchtime 1x -timeout 5h | \
	$(call last,growth)

.PHONY: bench-reads
bench-reads: ## Measure every list, count, chart, search and detail beside a million Runs (4 min)
	@bin=$$(.ci/setup --print-bin) && CONSOLE_POSTGRES_BIN=$$bin go test ./internal/bench -run '^$$' -bench '^BenchmarkReads$$' -benchtime 1x -timeout 90m

.PHONY: seed-large
seed-large: ## Fill the running development database with a million Schedules (ARGS="-runs 1000000")
	@go run ./internal/bench/seed $(ARGS)
