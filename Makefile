# Two commands to start with, on a machine with only Python >= 3.11 and make:
#   make demo    a demonstration: a group counts words, a member leaves, the broker is killed
#   make test    everything that a change must pass
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# The tests start hundreds of Python processes. Without bytecode files, each process would compile
# all modules that it imports, which takes longer than most tests.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that is new enough; `make PYTHON=/path/to/python3.12 test` uses another one.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; \
	done)

.PHONY: help demo test checks coverage uncached compiled compiled-build check cluster parity conformance languages soak truth crash hostile mutants structure lint types lock format site docs serve bench clean

help:
	@sed -n 's/^#   //p' Makefile

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "kohort needs Python 3.11 or newer, but none was found: install it, or run make PYTHON=/path/to/python."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing what kohort needs into $(VENV) (once, and when pyproject.toml changes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' \
		--constraint constraints.txt
	@touch $@

demo: $(STAMP)
	@$(BIN)/python demo/run.py

# Tests run in parallel, because they mostly wait for clients. On a machine that stalls, real clients
# lose their sessions, so failed tests run again alone and must then pass. Spark's tests run
# afterwards, in two processes, because a session with little data keeps one core busy.
# CI runs everything; elsewhere slow tests are skipped, and those that need a JVM or another toolchain.
QUICK = not spark$(if $(filter true,$(CI)),, and not slow and not java and not parity and not toolchain)
SPARK = -m "spark and not cluster" tests/pipeline tests/cli/pipeline
test: checks
	$(BIN)/pytest -q -n auto -m "$(QUICK)" $(COVERING:%=--ignore=%) || $(BIN)/pytest -q -m "$(QUICK)" --lf --lfnf none
	$(if $(filter true,$(CI)),$(MAKE) uncached)
	$(if $(filter true,$(CI)),$(BIN)/python tests/compiled.py test)
	$(if $(filter true,$(CI)),$(BIN)/pytest -q -n 2 $(SPARK) || $(BIN)/pytest -q --lf --lfnf none $(SPARK))

# The compiler needs one core for two minutes. Meanwhile, the types are checked and the coverage is
# measured.
checks: $(STAMP)
	@$(MAKE) --jobs=2 $(if $(filter true,$(CI)),compiled-build) lint types site coverage

# The tests of the packages that decode, decide and store, and the scenarios, which compare decisions
# with Kafka's. `make test` runs them only here, because a second run without measuring would take as
# long again. Lines and branches of each package count together.
COVERING = tests/protocol tests/coordinator tests/offsets $(wildcard tests/broker/test_*cache.py \
	tests/broker/test_*snapshots.py tests/broker/test_runtime.py tests/parity/test_scenarios.py)
coverage: $(STAMP)
	$(BIN)/pytest -q -n auto -m "$(QUICK)" --cov --cov-report= $(COVERING) || \
		$(BIN)/pytest -q -m "$(QUICK)" --lf --lfnf none --cov --cov-append --cov-report= $(COVERING)
	@for package in protocol coordinator offsets; do \
		$(BIN)/coverage report --include="$$package/*" --fail-under=98 || exit 1; \
	done

# The tests of the request path, without the request cache. Only connections use it, so these are the
# tests of the broker that send requests over one.
UNCACHED = $(addprefix tests/broker/security/, test_authorized_broker.py test_connection_limits.py \
	test_sasl.py test_throttling.py test_unauthenticated.py) \
	$(addprefix tests/broker/, test_connection.py test_events.py test_listeners.py test_mirror.py \
	test_request_cache.py test_server.py test_stopping.py test_watchdog.py test_written_ahead.py) \
	tests/clients/test_commits.py tests/clients/test_groups.py \
	tests/crash/test_acknowledged_commits_survive.py tests/testing/test_faults.py
uncached: $(STAMP)
	export KAFKA_KOHORT_REQUEST_CACHE=false; $(BIN)/pytest -q -n auto -m "$(QUICK)" $(UNCACHED) || \
		$(BIN)/pytest -q -m "$(QUICK)" --lf --lfnf none $(UNCACHED)

# The tests of the hot path, on a build in which the hot path is compiled to C extensions.
compiled: compiled-build
	@$(BIN)/python tests/compiled.py test
compiled-build: $(STAMP)
	@$(BIN)/python tests/compiled.py build

# The pipeline on a Spark cluster: seven JVMs for three minutes.
cluster: $(STAMP)
	$(BIN)/pytest -q -m cluster tests/pipeline/cluster

# Each scenario of conformance/ on a real Kafka, which must respond as recorded, and random groups with
# our assignors and Kafka's; needs Java and Maven. RECORD=1 records Kafka's responses.
# FILES="acls topics": only the scenarios of these files, without the groups.
GROUPS ?= 1000
parity: $(STAMP)
	KOHORT_PARITY_SCENARIOS="$(or $(FILES),all)" KOHORT_PARITY_RECORD=$(RECORD) KOHORT_PARITY_GROUPS=$(GROUPS) \
		$(BIN)/pytest -q -m parity tests/parity/test_parity.py $(if $(FILES),,tests/parity tests/assignors)

# `kohort conformance` on Kafka, kohort, kfake and librdkafka's mock cluster, for docs/conformance.md:
# half an hour; needs Java, Maven and Go. SUBJECTS="kfake mock": only these.
conformance: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m parity.matrix $(SUBJECTS)

# Clients in six languages play the stories of tests/languages; the results go to docs/compatibility.md.
# BROKER=kafka: on Kafka, and nothing is recorded. Skips clients whose toolchains are missing.
BROKER ?= kohort
languages: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m languages.play --broker $(BROKER) $(if $(filter kohort,$(BROKER)),--record)
	$(if $(filter kohort,$(BROKER)),@$(BIN)/python docs/tables.py)

# Simulations of the broker, its clients and their faults: of groups and of transactions, one of each
# per seed.
SEEDS ?= 10000
FIRST ?= 0
soak: $(STAMP)
	KOHORT_SEEDS=$(SEEDS) KOHORT_FIRST_SEED=$(FIRST) $(BIN)/pytest -q -n logical --maxfail 5 \
		tests/simulation/test_seeds.py -k "violated or atomic"

# Groups in which the cause of every rebalance is known: how often does the pipeline find it?
WORLDS ?= 200
truth: $(STAMP)
	KOHORT_TRUTH_WORLDS=$(WORLDS) KOHORT_TRUTH_FIRST=$(FIRST) $(BIN)/pytest -q -rP \
		tests/pipeline/truth/test_diagnosis.py -k most_causes

# Commits at full speed while the broker compacts continuously and is killed.
LONG ?= 600
CONNECTIONS ?= 50
KILLS ?= 3
crash: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m crash.soak --seconds $(LONG) \
		--connections $(CONNECTIONS) --kills $(KILLS)

# Runs clients, crashes and a nemesis on a built-in cluster, then on a `kohort serve` that is killed and
# paused, and checks that Kafka's guarantees explain everything that the clients saw.
CHECK_SECONDS ?= 120
CHECK_SEED ?= 1
CHECK_PORT ?= 19092
check: $(STAMP)
	@$(BIN)/kohort check --seconds $(CHECK_SECONDS) --seed $(CHECK_SEED)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(BIN)/kohort check \
		--seconds $(CHECK_SECONDS) --seed $(CHECK_SEED) --bootstrap-server 127.0.0.1:$(CHECK_PORT) \
		--command "$(BIN)/kohort serve --port $(CHECK_PORT) --data-dir $$folder"

# Attacks on a running broker, at full size, and their effect on another client.
hostile: $(STAMP)
	KOHORT_HOSTILE=1 $(BIN)/pytest -q tests/hostile

# One-line mutants of the code, and the tests that kill each mutant.
mutants: $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m support.mutation_testing --only "$(ONLY)" --layer "$(LAYER)"

# Statistics about the code's structure: files, lines, imports, the files on the paths of requests.
ROOT ?= .
structure: $(STAMP)
	@$(BIN)/python tests/project/structure.py $(ROOT)

lint: $(STAMP)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports --no-cache --no-logo

# The root is the package: mypy needs a folder that contains it under its name.
types: $(STAMP)
	@mkdir -p .typing && ln -sfn .. .typing/kohort
	MYPYPATH=.typing $(BIN)/mypy -p kohort

# The newest versions of all development dependencies, as constraints for the next installation.
lock:
	$(PYTHON) -m venv $(VENV).lock
	$(VENV).lock/bin/pip install --quiet --disable-pip-version-check '.[dev]'
	$(VENV).lock/bin/pip list --format=freeze --exclude kohort --exclude pip --exclude setuptools > constraints.txt
	rm -rf $(VENV).lock

format: $(STAMP)
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

# The documentation as a site, in build/site; a dead link or anchor, or a page missing from the
# navigation, fails.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

docs: $(STAMP)
	@$(BIN)/python docs/tables.py

serve: $(STAMP)
	@$(BIN)/kohort serve

bench: $(STAMP)
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .typing build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
