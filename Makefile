# Each target installs its tools; a machine needs only Python 3.11+ and make.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTHON ?= python3
UV := $(filter-out $(abspath $(VENV))/%,$(shell command -v uv))
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
    --build-constraint constraints.txt --editable
PURE := not program and not kafka and not spark and not docker and not objects and not database and not slow and not nightly
# Tests that share a server stay in one process (tests/support/distribution.py).
GROUPED := --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test check docs test-pure test-slow test-failed nightly dist artifacts release figures setup clean java warm

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##/ {print substr($$0, 4)} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## For contributors:
demo: java ## Decide commands on Spark and an embedded Kafka
	@$(BIN)/cqrs demo

test: warm ## Run the tests, with a real broker and Spark (nine minutes)
	@$(BIN)/pytest -m "not slow and not nightly" --durations 15 --numprocesses 6 $(GROUPED)

check: $(READY) ## Lint, check formatting and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

docs: $(READY) ## Build the documentation in site/, and check its links
	@$(INSTALL) '.[dev,docs]'
	@$(BIN)/python -m docs.site

## More tests:
test-pure: $(READY) ## Run the tests that start no program (a minute)
	@$(BIN)/pytest -m "$(PURE)" --numprocesses 3 --dist worksteal

test-slow: warm ## Kill processes, lose brokers, install, log in (twelve minutes)
	@$(BIN)/pytest -m "slow and not nightly" --durations 15 --numprocesses 5 $(GROUPED)

test-failed: warm ## Repeat the tests that failed last, one after the other
	@$(BIN)/pytest -m "not nightly" --last-failed --last-failed-no-failures none

nightly: warm ## Run the longest tests (hours), or some: make nightly PARTS="soak audit" (see .ci/nightly)
	@.ci/nightly $(PARTS)

## Maintenance:
dist: $(READY) ## Build and check the wheel and the source distribution in dist/
	@$(INSTALL) '.[dev,release]'
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl

artifacts: $(READY) ## Build dist/ with bill of materials and checksums
	@$(INSTALL) '.[dev,release]'
	@$(BIN)/python -m scripts.release --artifacts

release: $(READY) ## Check, test, build and tag a release: make release VERSION=1.2.3
	@$(BIN)/python -m scripts.release $(VERSION)

figures: java ## Measure docs/figures.md and README's figures: make figures PEER=DIR (30 minutes)
	@$(BIN)/python -m benchmarks.figures $(if $(PEER),--peer $(PEER)) $(OPTIONS)
	@$(BIN)/python -m docs.generate_figures

setup: $(READY) ## Only set up .venv

clean: ## Remove .venv and caches, but not .cqrs, which has the embedded Kafka's events
	rm -rf $(VENV) .venv-* .hypothesis .mypy_cache .pytest_cache .ruff_cache .site site dist mutants
	find . -name __pycache__ -not -path './.cqrs/*' -prune -exec rm -rf {} +

# Install Java on a machine without Java 17 or newer (see cqrs_cli/system/java.py).
java: $(READY)
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])' || $(INSTALL) '.[dev,java]'

# Write class archives once per user, which takes a minute: starting Spark then takes a third of the processor time.
warm: java
	@$(BIN)/cqrs warm spark kafka executors --quiet

# All packages at the versions of constraints.txt. uv, several times faster than pip, is installed from PyPI if missing.
$(READY): pyproject.toml constraints.txt
	@echo "installing into $(VENV) …" >&2
	@if test -n "$(UV)"; then \
	    $(UV) venv --quiet --clear --seed --python "$(if $(filter-out file,$(origin PYTHON)),$(PYTHON),>=3.11)" $(VENV); \
	else $(PYTHON) -m venv --clear $(VENV); fi
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt uv
	@$(INSTALL) '.[dev]'
	@touch $@

# Make the virtual environment again if its Python was removed.
ifeq ($(wildcard $(BIN)/python),)
.PHONY: $(READY)
endif
