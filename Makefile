# Two commands do everything, from nothing but Python 3.11: `make warm` and `make test`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
PYTEST_ARGS ?= -n 2 --tb=short

venv := .venv
oldest := .venv-triton36
plugins := $(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml))
third_party := examples/warmcache-redis
projects := pyproject.toml $(plugins:=/pyproject.toml) $(third_party)/pyproject.toml

# What the main job needs, and what the tests of the JIT plugin need beside it.
warm := -e . -e plugins/warmcache-disk -e plugins/warmcache-jit
jit_tests := -e '.[dev]' -e plugins/warmcache-disk -e plugins/warmcache-jit 'triton==3.6.0'

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help warm test setup system lint format bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

warm: $(venv)/.ready-to-warm ## Run the main job: one cold start, one warm, one with another identity
	@$(venv)/bin/python examples/engine/run.py

test: setup lint ## Run all checks and tests, as CI does
	$(venv)/bin/pytest $(PYTEST_ARGS)
	# A third party's store, from its own folder, on a server of its own.
	cd $(third_party) && $(CURDIR)/$(venv)/bin/pytest -q
	# The JIT plugin with the oldest Triton that it supports; .venv has the newest.
	$(oldest)/bin/pytest $(PYTEST_ARGS) plugins/warmcache-jit/tests
	# No check of the core may be an assert, no warning of the interpreter may stay unseen.
	PYTHONOPTIMIZE=1 PYTHONDEVMODE=1 $(venv)/bin/pytest $(PYTEST_ARGS) -W 'ignore:assertions not in test modules' tests

setup: system $(venv)/.ready-to-test $(oldest)/.ready-to-test ## Make both environments that the tests use

system: # Install the system packages that are missing
	@scripts/system-packages

lint: $(venv)/.ready-to-test ## Run ruff and mypy
	$(venv)/bin/ruff check
	$(venv)/bin/ruff format --check
	$(venv)/bin/mypy

format: $(venv)/.ready-to-test ## Rewrite the code as `make lint` wants it
	$(venv)/bin/ruff check --fix
	$(venv)/bin/ruff format

bench: $(venv)/.ready-to-test ## Measure side by side, and write benchmarks/RESULTS.md
	@$(venv)/bin/pip install --quiet 'diskcache>=5.6,<6'
	$(venv)/bin/python benchmarks/bench.py
	$(venv)/bin/python benchmarks/report.py

clean: ## Remove the environments and everything that was generated
	rm -rf $(venv) $(oldest) .warm build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(venv)/.ready-to-warm: $(projects)
	$(call make_environment,$(venv),$(warm))
	@touch $@

$(venv)/.ready-to-test: $(projects)
	$(call make_environment,$(venv),-e '.[dev]' $(plugins:%=-e %) -e $(third_party))
	@touch $(venv)/.ready-to-warm $@

$(oldest)/.ready-to-test: $(projects)
	$(call make_environment,$(oldest),$(jit_tests))
	@touch $@

# $(1) is the folder, $(2) what pip installs into it. What is there already stays.
define make_environment
@"$(PYTHON)" -c 'import sys; v = sys.version.split()[0]; sys.exit(sys.version_info < (3, 11) and f"found Python {v}, need 3.11 or newer: make PYTHON=...")'
@echo "installing into $(1)"
@"$(PYTHON)" -m venv $(1)
@$(1)/bin/pip install --quiet $(2)
endef
