# Every chore has its target here; `make help` lists them. Set-up happens by itself, once.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
AZURITE := $(VENV)/azurite/.installed
VERSITYGW := $(VENV)/versitygw/.installed
ARCHIVE := $(VENV)/spark-classes/archive.jsa
LOGSTORE := src/deltamirror/spark/jars/deltamirror-logstore.jar
COMPILE := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --universal
PIP_AUDIT := 2.10.1
# Also the options of pytest: make test TESTS="tests/unit -k lines"
TESTS ?=
# Whose logs `make reference-logs` writes; none named: of all.
WRITERS ?=
# How many random schedules, and how many random tables for all readers, `make soak` runs; it also takes SOAK_MINUTES.
SCHEDULES ?= 10000
# How many processes run the schedules.
JOBS ?= 2
TABLES ?= 3000
# The tests that `make coverage` measures, on SQLite and without Spark.
COVERED := tests/unit tests/contract tests/property
# How many damaged logs.
DAMAGES ?= 2000
# For how long each parser is fuzzed, and by which release of atheris.
FUZZ_SECONDS ?= 60
ATHERIS := 3.0.0
# Which modules are mutated (a part of their paths; none: all of the list), and how many mutants of each are tried.
MODULE ?=
MUTANTS ?= 40

# Hundreds of processes import the same modules: each compiles them where none keeps what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: audit bench bench-check bench-lag check clean coverage demo format fuzz golden help java lint lock mutants reference-logs scale setup soak test test-fast types

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28

demo: java $(STAMP) ## Show what deltamirror does, in the terminal
	@$(BIN)/deltamirror demo

test: java setup ## Run all checks and the default test suite
	@$(MAKE) --no-print-directory check
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(TESTS)

test-fast: setup ## Run what is quick: unit tests, SQLite, disk and memory
	$(BIN)/pytest -n 2 --fast $(TESTS)

golden: java setup ## Run the tests of reference logs over the tables in DELTAMIRROR_SHARED (default: ../shared)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --golden -m reference $(TESTS)

reference-logs: java setup ## Let the reference writers write the logs in tests/reference/logs again (WRITERS: some of them)
	$(BIN)/python -m tests.reference $(WRITERS)

soak: java setup ## Random schedules, tables and interleavings, processes amid faults, every database and store
	$(BIN)/python -m tests.simulation --count $(SCHEDULES) --jobs $(JOBS)
	$(BIN)/python -m tests.damage --count $(DAMAGES)
	$(BIN)/python -m tests.admission --directed ""
	$(BIN)/python -m tests.admission --count $(TABLES)
	$(BIN)/python -m tests.lockstep --steps 200
	$(BIN)/python -m tests.statements --steps 200
	$(BIN)/python -m tests.statements --steps 200 --store s3
	RANDOM_EXAMPLES=1 $(BIN)/pytest -n 2 tests/property tests/unit tests/contract/test_import_parts.py tests/contract/test_slo.py
	$(BIN)/pytest -s -m soak tests/soak tests/interop
	$(BIN)/pytest -n 2 -m elsewhere

scale: setup ## Huge commits, in bounded memory; every version opened by every reader
	$(BIN)/pytest -m scale tests/scale
	EVERY_VERSION=1 $(BIN)/pytest -m spark tests/interop/test_every_reader.py

check: setup ## Lint, types, import contract, links, generated documents, no stubs, plain subjects
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types lint

types: setup ## Check the types alone
	$(BIN)/mypy

lint: setup ## All of `make check` but the types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_links.py
	$(BIN)/python scripts/requirements_table.py --check
	$(BIN)/python scripts/reference_docs.py --check
	$(BIN)/python scripts/check_stubs.py
	$(BIN)/python scripts/check_words.py

coverage: setup ## Measure the branches of delta, publish, txnlog and pipeline that quick tests take; fail below 90 %
	@mkdir -p build
	COVERAGE_FILE=build/coverage $(BIN)/pytest -n 2 --fast $(COVERED) \
		$(foreach package,delta publish txnlog pipeline,--cov=deltamirror.$(package)) --cov-branch --cov-report=json:build/coverage.json
	$(BIN)/python scripts/check_coverage.py build/coverage.json

fuzz: setup ## Fuzz the parsers of lines, names, checkpoints, settings (FUZZ_SECONDS each; it needs the network once)
	@test -d build/atheris-$(ATHERIS) || $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps \
		--target build/atheris-$(ATHERIS) atheris==$(ATHERIS)
	PYTHONPATH=build/atheris-$(ATHERIS) $(BIN)/python -m tests.fuzzing --seconds $(FUZZ_SECONDS)

mutants: setup ## Break what writes and publishes logs in one place at a time; tests have to notice
	$(BIN)/python -m tests.mutation --module "$(MODULE)" --most $(MUTANTS)

audit: setup ## Look for known vulnerabilities of the locked dependencies, at PyPI (it needs the network)
	$(BIN)/uv tool run --from pip-audit==$(PIP_AUDIT) pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		-r requirements/build.txt -r requirements/dev.txt

bench: java setup ## Measure, beside delta-rs, Delta Spark and the bare databases, and write docs/benchmarks.md
	$(BIN)/python -m benchmarks --record

bench-check: setup ## Fail if commits, publishing or checkpoints are far slower beside delta-rs than they were; some two minutes
	$(BIN)/python -m benchmarks.check

bench-lag: java setup ## Measure a service alone: the time from commit to visible, and what it costs when idle
	$(BIN)/python -m benchmarks --only lag --only idle

format: setup ## Format the code, sort imports, write the generated documents
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python scripts/requirements_table.py
	$(BIN)/python scripts/reference_docs.py

lock: setup ## Resolve the dependencies again, to the latest versions that pyproject.toml allows
	$(COMPILE) --upgrade --group build -o requirements/build.txt
	$(COMPILE) --upgrade --all-extras --group dev -c requirements/build.txt pyproject.toml -o requirements/dev.txt
	$(BIN)/python scripts/azurite.py lock
	$(BIN)/python scripts/versitygw.py lock

clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) $(dir $(LOGSTORE)) logstore/target build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

java:
	@sh scripts/check_java.sh

setup: $(STAMP) $(AZURITE) $(VERSITYGW) $(LOGSTORE) $(ARCHIVE)

$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml
	@test ! -L $(VENV) || { echo "$(VENV) is a link, and would be emptied for others: remove it, or touch $(STAMP)"; exit 1; }
	@python=$$(sh scripts/find_python.sh) || exit 1; \
	echo "Installing the locked dependencies into $(VENV), once (some minutes: Spark and the readers are over 1 GB)"; \
	"$$python" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps -r requirements/build.txt
	@$(BIN)/python -m pip install --quiet --require-hashes --no-deps --no-build-isolation -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(AZURITE): $(STAMP) scripts/azurite.py tests/azurite/.npmrc tests/azurite/package.json tests/azurite/package-lock.json
	@echo "Installing the Azure server of the tests into $(VENV), once"
	@$(BIN)/python scripts/azurite.py install
	@touch $@

$(VERSITYGW): $(STAMP) scripts/versitygw.py tests/versitygw/go.mod tests/versitygw/go.sum
	@echo "Building the second S3 server of the tests into $(VENV), once (some minutes)"
	@$(BIN)/python scripts/versitygw.py install
	@touch $@

$(ARCHIVE): $(STAMP) tests/support/spark/class_archive.py tests/support/suite/environment.py
	@echo "Storing Spark's classes for the JVMs of the tests, once"
	@$(BIN)/python -m tests.support.spark.class_archive

$(LOGSTORE): scripts/logstore.sh logstore/pom.xml $(wildcard logstore/src/main/java/io/deltamirror/spark/*.java)
	@echo "Building the LogStore for Delta Lake on Spark (a minute the first time)"
	@sh scripts/logstore.sh
	@touch $@
