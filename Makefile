# Slackwater on one machine. `make demo` and `make test` set up all they need; nothing is assumed but Python 3.11 or newer, make, and a package index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.installed
SOURCES := functions gpu_job infra shared local cli tests bench examples

.DEFAULT_GOAL := help
.PHONY: help setup engine demo up test test-fast lint format types imports synth bench lock clean

help: ## Say what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(LIGHT): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Slackwater needs Python 3.11 or newer; '$(PYTHON)' is older, or not there. Say which to use: make PYTHON=python3.12 ..."; exit 1; }
	@echo "making $(VENV): some minutes"
	@$(PYTHON) -m venv $(VENV) || { echo "could not make $(VENV); on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.txt || { echo "could not install the packages: check the network, or set PIP_INDEX_URL to an index that you reach, and run the same command again"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . 2>$(VENV)/install.log || { cat $(VENV)/install.log; exit 1; }
	@touch $@

setup: engine ## Make the whole environment: ours, the engine's, and the models
	@$(BIN)/python -m local.model_store all-minilm-l6-v2

engine: $(LIGHT)
	@$(BIN)/python -m local.engine_env
	@$(BIN)/python -m local.model_store smollm2-135m

demo: engine ## A real batch through the whole system, answered by a real model
	@$(BIN)/python -m local.demo

up: setup ## Run the whole system until Ctrl-C
	@$(BIN)/slackwater up

test: setup test-fast ## Every test
	@$(BIN)/python -m pytest -m stack tests/e2e

# moto's state is one a process, so the parts that serve it in different ways run apart.
test-fast: $(LIGHT) ## The tests that start neither the local stack nor vLLM
	@for part in "tests/core tests/services tests/system tests/cli tests/gpu_job tests/test_architecture.py tests/test_fakes.py tests/test_invariants.py tests/test_bench.py" tests/contracts tests/tasks tests/api tests/infra tests/local; do \
		$(BIN)/python -m pytest -n auto -m "not stack" $$part || exit 1; done

lint: $(LIGHT) ## Lint, formatting, types and import rules
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(LIGHT) ## Put the sources into shape
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

synth: $(LIGHT) ## The CloudFormation template, into cdk.out; no network is needed
	@$(BIN)/python -m infra.app

bench: $(LIGHT) ## Measure, and print the tables
	@$(BIN)/python -m bench.scan
	@$(BIN)/python -m bench.api
	@$(BIN)/python -m bench.fleet
	@$(BIN)/python -m bench.finalize
	@if [ -x .venv-engine/bin/python ]; then $(BIN)/python -m bench.worker; else echo "the worker is measured where an engine is: make setup"; fi

lock: ## Compile the lock files again from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes -q -o requirements-dev.txt
	uv pip compile pyproject.toml --extra lambda --python-version 3.13 --python-platform aarch64-manylinux_2_28 --generate-hashes -q -o requirements-lambda.txt
	uv pip compile pyproject.toml --extra worker --universal --python-version 3.11 --generate-hashes -q -o requirements-worker.txt

clean: ## Remove environments, models, logs and results
	rm -rf $(VENV) .venv-engine .slackwater results cdk.out
