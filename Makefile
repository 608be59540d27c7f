# Everything a newcomer needs. `make` alone prints this file's targets.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python that runs: `command -v` is not enough, since version managers leave shims behind.
PYTHON ?= $(shell for p in python3.11 python3; do $$p -c "" 2>/dev/null && echo $$p && break; done)

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

ONE_CORE := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind

.PHONY: help venv demo test check lock bench clean

help: ## print this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | \
	  while IFS='|' read -r target text; do printf '%-14s %s\n' "$$target" "$$text"; done

venv: $(STAMP) ## install the CPU build and the tools into .venv (about 5 minutes, once)

$(STAMP): requirements/cpu.lock pyproject.toml scripts/install.py
	@$(or $(PYTHON),python3) -m scripts.install $(VENV)
	@touch $@

demo: venv ## install if needed, then evaluate the embedded model on a few documents
	$(BIN)/mars eval

# Two at a time, engines with one core each; the embedded model has all cores to itself.
test: venv ## run every test: unit, integration, e2e
	$(BIN)/pytest -n 2 --dist loadfile tests/unit
	$(ONE_CORE) $(BIN)/pytest -n 2 tests/integration
	$(BIN)/pytest tests/e2e

check: venv ## lint, formatting, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock: ## resolve the extras anew and rewrite requirements/cpu.lock (minutes; needs Python 3.11)
	@$(or $(PYTHON),python3) -m scripts.lock

bench: venv ## measure what the suite itself costs, and how often its intervals cover
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.coverage

clean: ## remove .venv, builds and caches; run directories under outputs/ stay
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -path ./outputs -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
