# `make` lists the targets. They work in a fresh clone and need Go alone, unless they say what else.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

# Each module of NESTED is released, and requires the root module by version. Its go.work takes the one of this clone instead.
MODULES   := . integration
NESTED    := $(patsubst %/go.work,%,$(wildcard */go.work */*/go.work))
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
TOOL      := go tool -modfile=$(CURDIR)/tools/go.mod

# Each run ends with how many tests ran, which were skipped, and for want of what. make lint vets, so a run of the tests need not.
GOTEST     := $(TOOL) gotestsum --format=pkgname -- -vet=off
NESTEDTEST := $(TOOL) gotestsum --format=pkgname --raw-command --

# One test binary at a time where real servers run: they need the cores.
REAL := -count=1 $(if $(shell command -v java),-p=1)

# The parallel tests of a nested module wait for other processes, most of the time.
WAITING := -parallel=4

DURATION ?= 10m
SEED     ?=
FUZZTIME ?= 20s
COUNT    ?= 6
SECTIONS ?= 10000
HOURS    ?= 160
GRANTS   ?= 2000000

# Where binaries and wheels go, and which Python makes the wheels.
BIN    ?= $(CURDIR)/bin
PYTHON ?= python3

# What make matrix runs: releases of ZooKeeper, and of Curator. "3.9" is the newest 3.9 that make releases has fetched.
ZOOKEEPERS ?= debian 3.8 3.9
CURATORS   ?= debian 5.9

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: test
test: ## all tests; those in integration/ need a real ZooKeeper, else they skip (REQUIRE_REAL=1: they fail)
	$(GOTEST) -shuffle=on ./...
	for module in $(NESTED); do $(NESTEDTEST) go -C $$module test -json -vet=off $(WAITING) -shuffle=on ./...; done
	cd integration && $(GOTEST) $(REAL) -shuffle=on -timeout=20m ./...

.PHONY: releases
releases: ## fetch releases of ZooKeeper and Curator into integration/versions/cache (needs Maven)
	integration/versions/fetch.sh

.PHONY: matrix
matrix: ## the tests in which releases may differ, against each release of ZOOKEEPERS and CURATORS
	cd integration && for release in $(ZOOKEEPERS); do \
		echo "== ZooKeeper $$release"; \
		ZKRECIPES_ZOOKEEPER=$$release REQUIRE_REAL=1 $(GOTEST) $(REAL) -timeout=20m ./zkserver ./lease ./parity; \
	done
	cd integration && for release in $(CURATORS); do \
		echo "== Curator $$release"; \
		ZKRECIPES_CURATOR=$$release REQUIRE_REAL=1 $(GOTEST) $(REAL) -timeout=20m ./curator; \
	done

# Left out are the packages whose tests are about other processes, which the detector does not see.
# curator and parity run the code that the tests of the root module have run already. By default, a process under the detector
# lives on for a second after its work.
.PHONY: race
race: export GORACE = atexit_sleep_ms=0
race: ## all tests of code in the test process under the race detector (needs a C compiler)
	$(GOTEST) -race -shuffle=on ./...
	for module in $(NESTED); do $(NESTEDTEST) go -C $$module test -json -vet=off -race $(WAITING) -shuffle=on ./...; done
	cd integration && $(GOTEST) -race $(REAL) -shuffle=on -timeout=20m \
		$$(go list ./... | grep -vE '/(bench|canaries|chaos|container|curator|discovery|foreign|leader|packages|parity|playground|rehearsal|services|speed|zkr)$$')

.PHONY: lint
lint: ## the linters of .golangci.yml, in all modules (the first run compiles them: minutes)
	$(TOOL) golangci-lint config verify
	lint=$$($(TOOL) -n golangci-lint); for module in $(MODULES) $(NESTED); do (cd $$module && $$lint run ./...); done

.PHONY: fmt
fmt: ## format the sources
	lint=$$($(TOOL) -n golangci-lint); for module in $(MODULES) $(NESTED); do (cd $$module && $$lint fmt ./...); done

.PHONY: tidy
tidy: ## check that go.mod and go.sum say what the sources need
	for module in $(MODULES) tools; do (cd $$module && go mod tidy -diff); done
	for module in $(NESTED); do tools/tidy.sh $$module; done

# integration/ freezes servers with signals that Windows does not have.
.PHONY: build
build: ## compile and vet for Linux, macOS and Windows, on amd64 and arm64
	for platform in $(PLATFORMS); do \
		export CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/}; \
		echo "build $$platform"; \
		go build ./...; \
		go vet ./...; \
		for module in $(NESTED); do go -C $$module vet ./...; done; \
		if [ $$GOOS != windows ]; then (cd integration && go vet ./...); fi; \
	done
	GOOS=js GOARCH=wasm go vet ./internal/playground/...

.PHONY: playground
playground: ## put the playground together in bin/playground, and serve it on http://127.0.0.1:8080/
	internal/playground/build.sh $(BIN)/playground
	go run ./internal/playground $(BIN)/playground

.PHONY: pictures
pictures: ## take the pictures of docs/playground again (needs Chromium)
	cd integration && PLAYGROUND_PICTURES=$(CURDIR)/docs/playground REQUIRE_REAL=1 go test $(REAL) ./playground -run TestScenes

# The packages in which the width of an int, the clock and the order of events matter most.
NARROW := ./internal/liveness ./internal/lifetime ./internal/session ./internal/hold ./internal/znode ./internal/record \
	./recipes/mutex ./recipes/semaphore ./recipes/value

.PHONY: narrow
narrow: export GOARCH = 386
narrow: export CGO_ENABLED = 0
narrow: ## vet the root module for linux/386, and run the tests of its core there (needs Linux on amd64)
	go vet ./...
	go test -vet=off -count=1 $(NARROW)

# The same packages where this machine can run their programs. With make -k, one that fails stops no other.
.PHONY: platforms run-arm64 run-windows run-wasm
platforms: run-arm64 run-windows run-wasm ## run the tests of the core for linux/arm64, windows/amd64 and js/wasm (10 minutes)

run-arm64: ## those for linux/arm64, with qemu
	@command -v qemu-aarch64-static >/dev/null || { echo 'no qemu-aarch64-static: apt-get install qemu-user-static' >&2; exit 1; }
	GOARCH=arm64 CGO_ENABLED=0 go test -vet=off -count=1 -p 1 -exec qemu-aarch64-static $(NARROW)

run-windows: ## those for windows/amd64, with wine
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 .ci/wine go test -vet=off -count=1 -p 1 -exec wine $(NARROW)

run-wasm: ## those for js/wasm, with Node
	@command -v node >/dev/null || { echo 'no node: install Node.js, of which 20 was tried' >&2; exit 1; }
	GOOS=js GOARCH=wasm go test -vet=off -count=1 -p 1 -exec "$$(go env GOROOT)/lib/wasm/go_js_wasm_exec" $(NARROW)

.PHONY: zkr-windows
zkr-windows: ## zkr for Windows under wine: its exit statuses, its queue, and who stops what when (a minute; needs a real ZooKeeper, and Debian)
	.ci/wine go -C integration run ./windows

# The same commit gives the same bytes. VERSION is by default its date and hash.
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
wheels: zktestd ## the pytest fixture with zktestd inside, a wheel for each platform, in bin/ (needs Python; fetches by pip)
	rm -rf zktest/python/build $(BIN)/pytest_zktest-*.whl
	$(PYTHON) -m pip wheel -q --no-deps -w $(BIN) ./zktest/python
	$(PYTHON) zktest/python/wheels.py $(BIN)/pytest_zktest-*-py3-none-any.whl \
		$(foreach p,$(subst /,-,$(PLATFORMS)),$(BIN)/zktestd-$(p)$(if $(findstring windows,$(p)),.exe))

# A program is in its jar below the name that netty's classifiers give the platform.
.PHONY: jars
jars: zktestd ## the JUnit extension with zktestd inside, a jar for each platform, into Maven's local repository (needs Maven)
	rm -rf $(BIN)/programs
	for platform in $(PLATFORMS); do \
		classifier=$$(sed 's/darwin/osx/; s/amd64/x86_64/; s/arm64/aarch_64/; s,/,-,' <<<$$platform); \
		for program in $(BIN)/zktestd-$${platform%/*}-$${platform#*/}*; do \
			install -D $$program $(BIN)/programs/$$classifier/com/github/zkrecipes/zktest/$$classifier/zktestd$$([ $${program##*.} != exe ] || echo .exe); \
		done; \
	done
	mvn -q -B -f zktest/java -Dprograms=$(BIN)/programs -DskipTests install

.PHONY: rehearsal
rehearsal: ## what users of the next release will do with Go alone, with nothing published (needs Debian and root)
	.ci/rehearsal $(NESTED)

.PHONY: release-check
release-check: rehearsal ## the same, and what they will do with Python and Java (fetches by pip and Maven)
	cd integration && REQUIRE_REAL=1 $(GOTEST) -count=1 -run '^Test(Wheel|Jar)Package$$' ./foreign

.PHONY: release-sums
release-sums: ## write the checksums of our modules, as they will be tagged, into go.sum
	stage=$$(mktemp -d) && trap 'rm -rf $$stage' EXIT && \
		go -C integration run ./rehearsal -version v$$(tools/version.sh) -sums stage $$stage $(NESTED)

.PHONY: release-tags
release-tags: ## sign the tags of the release, all on this commit
	for module in '' $(addsuffix /,$(NESTED)); do tag=$${module}v$$(tools/version.sh) && git tag -s $$tag -m $$tag; done

# Wheels, packages and jars come from the clone. tools/release.sh adds the programs, which come from the tags.
.PHONY: release
release: VERSION := $(shell tools/version.sh)
release: ## what is attached to a release that is tagged, in bin/release (needs Python and Maven)
	rm -rf $(BIN)/release zktest/java/target
	$(MAKE) wheels packages jars VERSION=$(VERSION) BIN=$(BIN)/release/parts
	cd $(BIN)/release && mv parts/*.whl parts/*.deb parts/*.rpm $(CURDIR)/zktest/java/target/*.jar .
	for arch in amd64 arm64; do tar -C $(BIN)/release/parts -cf $(BIN)/release/zkr-image-$$arch.tar zkr-image-$$arch; done
	rm -rf $(BIN)/release/parts
	tools/release.sh $(VERSION) $(BIN)/release $(PLATFORMS)

.PHONY: fuzz
fuzz: ## run every fuzz target of the root module for FUZZTIME (20s)
	for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: bench
bench: ## benchmarks, COUNT (6) times, and the comparisons with Curator: locks, caches (needs a real ZooKeeper, and Curator)
	mkdir -p bin
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bin/bench.txt
	$(TOOL) benchstat bin/bench.txt
	cd integration && go test $(REAL) -run '^$$' -bench . -timeout=0 ./...
	cd integration && go run ./bench
	cd integration && go run ./caches

.PHONY: speed
speed: ## operations a second and memory of zktest beside a real ZooKeeper, as a table
	cd integration && go run ./speed

.PHONY: scale
scale: ## what many waiters, holds, clients and observers cost, a line for each figure (needs a real ZooKeeper)
	cd integration && go run ./scale

.PHONY: parity
parity: ## zktest against a real ZooKeeper for DURATION (10m), from SEED
	cd integration && PARITY_DURATION=$(DURATION) PARITY_SEED=$(SEED) go test $(REAL) -v -timeout=0 ./parity/...

.PHONY: foreign
foreign: ## tests of other projects, clusters of Kafka and Helix, and packages for all platforms (hours; fetches by pip, Maven, cargo, npm)
	cd integration && FOREIGN=all go test $(REAL) -v -timeout=0 -run '(Suite|Cluster|Package)$$' ./foreign

.PHONY: mixed
mixed: ## Curator and kazoo beside us on one path, killed on either side, for SECTIONS (10000) each (fetches kazoo by pip)
	cd integration && MIXED_SECTIONS=$(SECTIONS) REQUIRE_REAL=1 go test $(REAL) -v -timeout=0 -run 'ContentionWithKills$$' ./curator ./foreign

.PHONY: chaos
chaos: ## faults on real ensembles for DURATION (10m), replaying SEED; KERBEROS=true: the servers want Kerberos
	cd integration && CHAOS_KERBEROS=$(KERBEROS) CHAOS_DURATION=$(DURATION) CHAOS_SEED=$(SEED) CHAOS_REPORT=$(CURDIR)/integration/reports/chaos.txt \
		go test $(REAL) -v -timeout=0 -run TestChaos ./chaos

# A later run with the same journal goes on counting.
.PHONY: soak
soak: ## all recipes on a real ensemble with faults, beside Curator and kazoo, for DURATION (10m); journal and curves in integration/reports
	mkdir -p integration/reports
	cd integration && SOAK_DURATION=$(DURATION) SOAK_SEED=$(SEED) SOAK_JOURNAL=$(or $(JOURNAL),$(CURDIR)/integration/reports/soak.jsonl) \
		SOAK_PICTURE=$(CURDIR)/integration/reports/soak.svg REQUIRE_REAL=1 go test $(REAL) -v -timeout=0 -run 'TestSoak$$' ./soak

.PHONY: containers
containers: ## ZooKeeper in containers: start Docker, build an image without pulling, test (needs root)
	integration/docker/start.sh
	integration/docker/build.sh
	cd integration && ZOOKEEPER_IMAGE=zkrecipes/zookeeper:debian REQUIRE_REAL=1 go test $(REAL) -v ./container

.PHONY: picture
picture: ## draw docs/operations/dashboard.svg from a run with faults (needs a real ZooKeeper, and Prometheus)
	cd integration && OPERATIONS_PICTURE=$(CURDIR)/docs/operations/dashboard.svg REQUIRE_REAL=1 \
		go test $(REAL) ./services

.PHONY: canaries
canaries: ## break the code on purpose, and show which test notices
	cd integration && go run ./canaries

.PHONY: mutants
mutants: ## change conditions and statements one at a time, and list what no test notices (SAMPLE=300 SEED=1; all: hours)
	mkdir -p integration/reports
	cd integration && go run ./mutate -sample $(or $(SAMPLE),0) -seed $(or $(SEED),1) -out reports/mutants.txt

.PHONY: storms
storms: ## random storms of faults on every recipe for HOURS (160) of virtual time
	$(GOTEST) -count=1 -timeout=0 ./internal/faults -run 'TestRandom$$' -args -hours $(HOURS)

.PHONY: year
year: ## DAYS (365) of sessions, reconnects and expiries in virtual time: memory stays flat
	go test -count=1 -timeout=0 -v ./internal/year -args -days $(or $(DAYS),365)

.PHONY: proofs
proofs: ## check the models of the deadline, the queue, the writes and the shards, also without each premise (needs spin and gcc)
	proofs/check.sh

.PHONY: relays
relays: ## hand-overs of contended locks under random faults, GRANTS (2000000) for each kind of crowd
	go test -count=1 -timeout=0 -v ./internal/faults -run 'TestHandOver$$' -args -grants $(GRANTS) | grep -vE '^ *(===|--- PASS)'

.PHONY: schedules
schedules: ## tests in virtual time under schedules that seldom come by themselves (half an hour)
	cd integration && go run ./schedules
