# make without a target lists what can be done. Nothing here needs more than
# make, a POSIX shell and Go; tests bring the rest (see internal/testenv).

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZ    ?= 10s
SOAK    ?= 1h
TOOL     = $(GO) tool -modfile=tools/go.mod

# The version comes from git describe above. Go's own stamp would make every
# build fail in a clone that belongs to another user.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

.DEFAULT_GOAL := help
.PHONY: help build test check fmt lint gen cross bench soak fuzz demo clean \
	check-fmt check-gen check-arch check-tests all-tests

help: ## list what can be done
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/mercury, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/mercury ./cmd/mercury

test: ## run all tests; PostgreSQL and other needs are brought along where possible
	@scripts/with-suites test $(MAKE) --no-print-directory all-tests

check: check-fmt lint check-gen check-arch ## what CI runs: format, vet, lint, generated files, architecture, all tests with -race
	@scripts/with-suites check $(MAKE) --no-print-directory check-tests
	@echo "check: all passed"

fmt: ## format the Go code
	gofmt -s -w .

lint: ## vet, staticcheck, and shellcheck where it is installed
	$(GO) vet ./...
	$(GO) vet -tags crashpoints ./...
	$(TOOL) staticcheck ./...
	@for f in scripts/*; do sh -n "$$f" || exit 1; done; bash -n .ci/run
	@if command -v shellcheck >/dev/null 2>&1; then shellcheck scripts/* .ci/run; fi

gen: ## write the generated files anew
	@scripts/gen

cross: ## build for every system into dist/ and print the sizes
	@scripts/cross "$(VERSION)"

bench: ## measure start, memory, latency and sizes; BENCH=--help lists options
	$(GO) run ./bench $(BENCH)

soak: ## run the soak tests for SOAK=1h
	@MERCURY_TEST_SOAK=$(SOAK) scripts/with-suites test $(GO) test -count=1 -timeout 0 -run Soak ./test/...

fuzz: ## run every fuzz test for FUZZ=10s
	@scripts/fuzz $(FUZZ)

demo: ## talk to Mercury without a model or an account
	$(GO) run ./cmd/mercury demo

clean: ## remove what was built
	rm -rf bin dist

check-fmt:
	@bad=$$(gofmt -s -l .); [ -z "$$bad" ] || { echo "not formatted, run make fmt:"; echo "$$bad"; exit 1; }

check-gen:
	@scripts/gen --check

check-arch:
	$(GO) test ./internal/arch/...

# The race detector slows a program five to ten times. Suites that start
# Mercury as a process, by the thousand for the kill sweep, live in test/ and
# run without it; so do rooms that start no goroutine. SQLite's translated C
# shares nothing but through the driver's own locks, so it is left out of the
# detector (engine: 134 s, without 18 s), and a watched program need not linger
# for a second at its end.
SINGLE = ./internal/arch/... ./internal/sandbox ./internal/schedule/cron ./internal/words
RACE   = GORACE=atexit_sleep_ms=10 $(GO) test -race -gcflags=modernc.org/sqlite/lib=-race=false
check-tests:
	$(GO) test -timeout 10m $(SINGLE)
	$(RACE) -timeout 20m $$($(GO) list ./... | grep -v -e '/mercury/test$$' -e '/mercury/test/' | grep -v -x $$($(GO) list $(SINGLE) | sed 's/^/-e /'))
	$(GO) test -p 1 -timeout 40m ./test/...

# The suites in test/ watch processes under time limits, so each has the machine
# to itself.
all-tests:
	@status=0; set -x; \
	$(GO) test -timeout 15m $$($(GO) list ./... | grep -v '/mercury/test/') || status=1; \
	$(GO) test -p 1 -timeout 40m ./test/... || status=1; \
	exit $$status
