# `make` lists the targets. They work in a fresh clone and need only Go, unless they say otherwise.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

# Each module in NESTED is released, and requires the root module by version. Its go.work uses that of this clone instead.
MODULES   := . integration tools
NESTED    := $(patsubst %/go.work,%,$(wildcard */go.work */*/go.work))
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
TOOL      := go tool -modfile=$(CURDIR)/tools/go.mod

# The parallel tests of nested modules mostly wait for other processes.
UNIT       = '. $(RACE) -shuffle=on ./...' $(NESTED:%='% $(RACE) -parallel=4 -shuffle=on ./...')
# Run one test binary at a time against real servers, which need the cores.
REAL      := -count=1 -p=1

DURATION ?= 10m
SEED     ?=
FUZZTIME ?= 20s
COUNT    ?= 6
GRANTS   ?= 2000000

# Where binaries and wheels go, and which Python builds the wheels.
BIN    ?= bin
override BIN := $(abspath $(BIN))
PYTHON ?= python3

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Users

.PHONY: test
test: ## all tests that need only Go
	@tools/test.sh $(UNIT)

.PHONY: playground
playground: ## build the playground in bin/playground, and serve it on http://127.0.0.1:8080/
	docs/playground/build.sh $(BIN)/playground
	go run ./docs/playground $(BIN)/playground

##@ Contributors

.PHONY: race
race: RACE := -race
race: export GORACE = atexit_sleep_ms=0
race: ## the same tests under the race detector (needs a C compiler)
	@tools/test.sh $(UNIT)

# Several packages at a time, because these tests mostly wait for sessions to expire and for servers and programs to start.
.PHONY: real
real: export REQUIRE_REAL = 1
real: ## the decisive tests against real servers (needs root, ZooKeeper, Curator, kazoo and iptables: see .ci/run)
	@CHAOS_DURATION=1m CHAOS_LIMIT=2m tools/test.sh \
		'integration $(REAL) -timeout=30m -parallel=8 ./others/curator ./library/leader' \
		'integration $(REAL) -timeout=30m ./chaos ./parity ./kit/zkserver ./library/lease' \
		'integration $(REAL) -timeout=30m -parallel=8 -run=^TestKazoo(BesideUs|Counter|Party) ./others/foreign' \
		'integration $(REAL) -timeout=30m -run=^TestExclusion$$ ./zkr'

.PHONY: gate
gate: ## everything that must hold before a change lands (needs Debian and root; 13 to 25 minutes)
	.ci/run

.PHONY: nightly
nightly: ## all other tests, or the parts in PART; CONTRIBUTING.md lists them (needs Debian and root; hours)
	.ci/nightly $(PART)

# A tool that reads these modules at once reads what they share only once, in the newest of the versions that they require. tools has many
# dependencies of its own, and needs a newer Go.
SHARING   := $(filter-out tools,$(MODULES)) $(NESTED)
WORKSPACE := $(BIN)/all.work
$(WORKSPACE): Makefile $(addsuffix /go.mod,$(SHARING))
	mkdir -p $(BIN)
	rm -f $@ $@.sum
	GOWORK=$@ go work init $(SHARING)

.PHONY: lint
lint: $(WORKSPACE) ## the linters of .golangci.yml, in all modules (the first run compiles them: minutes)
	$(TOOL) golangci-lint config verify
	cd tools && $$($(TOOL) -n golangci-lint) run ./...
	GOWORK=$(WORKSPACE) $$($(TOOL) -n golangci-lint) run $(SHARING:%=./%/...)

.PHONY: fmt
fmt: ## format the sources
	lint=$$($(TOOL) -n golangci-lint); for module in $(MODULES) $(NESTED); do (cd $$module && $$lint fmt ./...); done

.PHONY: tidy
tidy: ## check that go.mod and go.sum match the sources
	for module in $(MODULES); do (cd $$module && go mod tidy -diff); done
	for module in $(NESTED); do tools/tidy.sh $$module; done

# Only these modules have code for one system or architecture. linux/amd64 is left to the tests and linters. integration/ stops servers with
# signals that Windows does not have, so one other system is enough. An int of linux/386 has 32 bits.
.PHONY: typecheck
typecheck: $(WORKSPACE) ## type-check the code and tests for Linux, macOS and Windows, on amd64 and arm64, and for linux/386
	go -C tools build -o $(BIN)/typecheck ./typecheck
	export CGO_ENABLED=0 GOWORK=$(WORKSPACE); for platform in $(filter-out linux/amd64,$(PLATFORMS)) linux/386; do \
		echo "typecheck $$platform"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} $(BIN)/typecheck ./... ./cmd/zkr/... \
			$$([[ $$platform != darwin/arm64 ]] || echo ./integration/...); \
	done
	GOOS=js GOARCH=wasm $(BIN)/typecheck ./docs/playground/...

.PHONY: proofs
proofs: ## check the models of the deadline, the queue, the writes and the shards, with and without each premise (needs spin and gcc)
	proofs/check.sh

.PHONY: static
static: ## typecheck, lint and proofs, with a lower priority (needs spin and gcc)
	nice -n 5 $(MAKE) --no-print-directory typecheck lint proofs

.PHONY: canaries
canaries: ## break the code on purpose, and show which tests notice
	cd integration && go run ./doubt/canaries

.PHONY: mutants
mutants: ## change conditions and statements one at a time, and list the changes that no test notices (SAMPLE=300 SEED=1; all: hours)
	cd integration && go run ./doubt/mutate -sample $(or $(SAMPLE),0) -seed $(or $(SEED),1)

.PHONY: relays
relays: ## hand over contended locks under random faults, GRANTS (2000000) times for each kind of crowd
	go test -count=1 -timeout=0 -v ./internal/testkit/faults -run 'TestHandOver$$' -args -grants $(GRANTS) | grep -vE '^ *(===|--- PASS)'

.PHONY: chaos
chaos: ## faults on real ensembles for DURATION (10m), replaying SEED; with KERBEROS=true, the servers require Kerberos
	cd integration && CHAOS_KERBEROS=$(KERBEROS) CHAOS_DURATION=$(DURATION) CHAOS_SEED=$(SEED) CHAOS_REPORT=$(CURDIR)/integration/reports/chaos.txt \
		go test $(REAL) -v -timeout=0 -run TestChaos ./chaos

# A later run with the same journal continues its counts.
.PHONY: soak
soak: ## all recipes on a real ensemble with faults, together with Curator and kazoo, for DURATION (10m); journal in integration/reports
	mkdir -p integration/reports
	cd integration && SOAK_DURATION=$(DURATION) SOAK_SEED=$(SEED) SOAK_JOURNAL=$(or $(JOURNAL),$(CURDIR)/integration/reports/soak.jsonl) \
		REQUIRE_REAL=1 go test $(REAL) -v -timeout=0 -run 'TestSoak$$' ./chaos/soak

.PHONY: parity
parity: ## zktest against a real ZooKeeper for DURATION (10m), from SEED
	cd integration && PARITY_DURATION=$(DURATION) PARITY_SEED=$(SEED) go test $(REAL) -v -timeout=0 ./parity/...

.PHONY: fuzz
fuzz: ## run every fuzz target of the root module for FUZZTIME (20s)
	for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: bench
bench: ## benchmarks, COUNT (6) times, and the comparisons with Curator: locks, caches (needs a real ZooKeeper and Curator)
	mkdir -p bin
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bin/bench.txt
	$(TOOL) benchstat bin/bench.txt
	cd integration && go test $(REAL) -run '^$$' -bench . -timeout=0 ./...
	cd integration && go run ./measure bench
	cd integration && go run ./measure caches

##@ Releasers

# Builds of the same commit are identical. VERSION defaults to its date and hash.
.PHONY: packages
packages: ## zkr as .deb, as .rpm, and as an archive for a static image, for Linux on amd64 and arm64, in bin/
	cmd/zkr/packaging/build.sh $(BIN) $(VERSION)

.PHONY: zktestd
zktestd: ## zktestd alone, in bin/
	for platform in $(PLATFORMS); do \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		go build -trimpath -ldflags=-s -o $(BIN)/zktestd-$$GOOS-$$GOARCH$$([ $$GOOS != windows ] || echo .exe) ./cmd/zktestd; \
	done

.PHONY: wheels
wheels: zktestd ## the pytest fixture with zktestd inside, one wheel per platform, in bin/ (needs Python; downloads with pip)
	rm -rf zktest/python/build $(BIN)/pytest_zktest-*.whl
	$(PYTHON) -m pip wheel -q --no-deps -w $(BIN) ./zktest/python
	$(PYTHON) zktest/python/wheels.py $(BIN)/pytest_zktest-*-py3-none-any.whl \
		$(foreach p,$(subst /,-,$(PLATFORMS)),$(BIN)/zktestd-$(p)$(if $(findstring windows,$(p)),.exe))

# In its jar, a program is stored under the name that netty's classifiers give the platform.
.PHONY: jars
jars: zktestd ## the JUnit extension with zktestd inside, one jar per platform, in Maven's local repository (needs Maven)
	rm -rf $(BIN)/programs
	for platform in $(PLATFORMS); do \
		classifier=$$(sed 's/darwin/osx/; s/amd64/x86_64/; s/arm64/aarch_64/; s,/,-,' <<<$$platform); \
		for program in $(BIN)/zktestd-$${platform%/*}-$${platform#*/}*; do \
			install -D $$program $(BIN)/programs/$$classifier/com/github/zkrecipes/zktest/$$classifier/zktestd$$([ $${program##*.} != exe ] || echo .exe); \
		done; \
	done
	mvn -q -B -f zktest/java -Dprograms=$(BIN)/programs -DskipTests install

.PHONY: release-check
release-check: ## do what users of the next release will do with Go, Python and Java, without publishing anything (needs Debian and root)
	.ci/rehearsal $(NESTED)
	cd integration && REQUIRE_REAL=1 go test -count=1 -v -run '^Test(Wheel|Jar)Package$$' ./others/foreign

.PHONY: release-sums
release-sums: ## write the checksums of our modules as they will be tagged to go.sum
	stage=$$(mktemp -d) && trap 'rm -rf $$stage' EXIT && \
		go -C integration run ./release/rehearsal -version v$$(tools/version.sh) -sums stage $$stage $(NESTED)

.PHONY: release-tags
release-tags: ## create the signed tags of the release, all on this commit
	for module in '' $(addsuffix /,$(NESTED)); do tag=$${module}v$$(tools/version.sh) && git tag -s $$tag -m $$tag; done

# Wheels, packages and jars are built from the clone. tools/release.sh adds the programs, which are built from the tags.
.PHONY: release
release: VERSION := $(shell tools/version.sh)
release: ## the attachments of a tagged release, in bin/release (needs Python and Maven)
	rm -rf $(BIN)/release zktest/java/target
	$(MAKE) wheels packages jars VERSION=$(VERSION) BIN=$(BIN)/release/parts
	cd $(BIN)/release && mv parts/*.whl parts/*.deb parts/*.rpm $(CURDIR)/zktest/java/target/*.jar .
	for arch in amd64 arm64; do tar -C $(BIN)/release/parts -cf $(BIN)/release/zkr-image-$$arch.tar zkr-image-$$arch; done
	rm -rf $(BIN)/release/parts
	tools/release.sh $(VERSION) $(BIN)/release $(PLATFORMS)
