# Everything a newcomer needs; each target does its own set-up. The environment lives in .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
READY := .venv/.ready
RUN := .venv/bin/

.PHONY: help demo test test-pure check format bench clean

help: ## Print this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## The tour: commands decided on Spark against a real Kafka
	$(RUN)cqrs demo

test: $(READY) ## All tests: pure, with a real broker, with Spark, and the installed command
	$(RUN)pytest $(ARGS)

test-pure: $(READY) ## The tests that need no Java: seconds
	$(RUN)pytest -m 'not kafka and not spark' $(ARGS)

check: $(READY) ## Lint, format and types
	$(RUN)ruff check
	$(RUN)ruff format --check
	$(RUN)mypy

format: $(READY) ## Put the code into its form
	$(RUN)ruff check --fix
	$(RUN)ruff format

bench: $(READY) ## The figures of the README, one after the other (20 minutes)
	for one in startup backlog latency replay memory; do $(RUN)python -m benchmarks.$$one || exit; done
	$(RUN)python -m benchmarks.latency --rate 1000
	$(RUN)python -m benchmarks.backlog --remembered 3000000 --runs 1
	$(RUN)python -m benchmarks.backlog --remembered 3000000 --ids random --runs 1

clean: ## Remove the environment and what tools left behind
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer; install one, e.g. apt-get install python3" >&2; exit 3; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
		{ echo "error: $(PYTHON) has no ensurepip; install it, e.g. apt-get install python3-venv" >&2; exit 3; }
	$(PYTHON) -m venv .venv
	$(RUN)pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
