# Each target sets up what it needs; any of them can be the first command in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
QUICK := $(shell test -w /dev/shm && echo /dev/shm || echo "$${TMPDIR:-/tmp}")
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes

.PHONY: run test unit lint types contracts tests bench soak lock format clean

## Set up everything and start the server on 127.0.0.1:8283 (EUNOE_HOME moves the store from ~/.eunoe).
run: $(VENV)/.run
	@$(BIN)/eunoe serve

## The whole truth: lint, types, import contracts, all tests.
test: lint types contracts tests

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/pyright

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

tests: $(VENV)/.dev $(VENV)/.local
	$(BIN)/pytest -n 2 --dist loadfile

## The everyday loop: the tests that start no process and wait on nothing, with their files in memory where there is such
## a folder, since half of what they take is waiting for the disk. `make tests` runs them on the disk.
unit: $(VENV)/.dev
	TMPDIR=$(QUICK) $(BIN)/pytest -o tmp_path_retention_policy=failed -n 2 --dist loadfile -m "not slow and not local_model"

## Speed and size, against a floor measured in the same run.
bench: $(VENV)/.dev
	$(BIN)/python -m bench

## The long form of the state machine, with the tests that kill processes.
soak: $(VENV)/.dev
	EUNOE_SOAK=1 $(BIN)/pytest -n 2 tests -m "not local_model" -k "machine or crash"

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

## Resolve the locked requirements anew.
lock: $(VENV)/.dev
	scripts/lock

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Eunoe needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Set PYTHON=python3.x") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.txt pyproject.toml | $(BIN)/python
	$(PIP) -r requirements/run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(PIP) -r requirements/dev.txt
	@touch $@

$(VENV)/.local: requirements/local.txt | $(BIN)/python
	$(PIP) -r requirements/local.txt
	@touch $@
