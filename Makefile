# Bare `make` prints the targets. Everything runs in .venv, which the first target that needs it sets up.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
LOCK := requirements/dev.txt
PYTEST := $(BIN)/python -m pytest -q

# Hundreds of tests start programs, and each would compile all of Anew again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types check bench h2spec faktory-diff postgres nightly examples lock clean

help: ## print the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Anew needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(STAMP) ## set up .venv

demo: $(STAMP) ## show the main job: a flaky receiver, retries, a kill -9, nothing lost
	@$(BIN)/python -m demo

# Three on two processors: much of the time a test waits for a process, a disk or a timer.
test: $(STAMP) ## run the tests
	@$(PYTEST) -n 3 --dist worksteal -m "not nightly and not alone"
	@$(PYTEST) -m "alone and not nightly" tests/reliability

lint: $(STAMP) ## ruff: rules and format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict
	@$(BIN)/mypy

check: test lint types ## exactly what CI runs

bench: $(STAMP) ## measure (beside other Python queues: python -m bench.tasks); figures go to bench/RESULTS.md by hand
	@$(BIN)/python -m bench

h2spec: $(STAMP) ## HTTP/2's public conformance tests against a server of their own; needs Go
	@$(BIN)/python -m tests.e2e.h2spec

faktory-diff: $(STAMP) ## the same lines to FAKTORY (a program or URL) and to ANEW (a URL; one is started without it)
	@$(BIN)/python -m tests.differential.faktory $(ARGS) $(or $(FAKTORY),$(ANEW_TEST_FAKTORY)) $(or $(ANEW),anew)

postgres: $(STAMP) ## tests of both protocols, their servers on PostgreSQL
	@ANEW_TEST_STORE=postgres $(PYTEST) -n 2 -m "not file and not alone and not nightly" tests/e2e/fwp tests/e2e/test_two_nodes.py \
		$(foreach part,bulk crons delete enqueue failure filter folding interruptions limits negotiation override own_routes patch query repeats \
		restart settle take unique values verdicts,tests/e2e/test_$(part).py)

nightly: $(STAMP) ## the long set: more kills, more images, more trials
	@ANEW_NIGHTLY=1 $(PYTEST)
	@$(MAKE) postgres

examples: $(STAMP) ## run the documents' examples again and write what they print and draw
	@$(BIN)/python -m tests.unit.examples

lock: $(STAMP) ## make the lock file anew
	@$(BIN)/python -m pip install -q uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --extra dev --generate-hashes \
		--no-emit-index-url --no-header --upgrade pyproject.toml -o $(LOCK)

clean: ## remove what was set up and cached
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
