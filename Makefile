# Cotenant: the usual jobs. `make` alone shows the list.
#
# Variables, all optional:
#   PYTHON          the interpreter that creates .venv (default python3; 3.11 or newer)
#   PYTEST_ARGS     more arguments for pytest, e.g. PYTEST_ARGS="-m 'not slow'"
#   BENCH_ARGS      arguments for the benchmarks
#   CAMPAIGN_ARGS   arguments for the campaign of kills, e.g. CAMPAIGN_ARGS="--kills 50 --seed 3"
#   COTENANT_DATA   folder with public trace data (default: ../shared/data beside the checkout); tests and
#                   benchmarks that need it are skipped where it is absent
#
# Nothing is written outside this folder and $TMPDIR, except pip's own cache.

PYTHON ?= python3
PYTEST_ARGS ?=
BENCH_ARGS ?=
CAMPAIGN_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
LOCK_EXTRAS := --extra test --extra fast --extra solvers --extra kubernetes
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-annotate --custom-compile-command "make lock"

export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv venv-ray demo test lint format bench performance campaign lock clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-11s %s\n", $$1, $$2}' Makefile

venv: $(STAMP) ## Create or update .venv from requirements.lock and install the project in it

# The stamp is written last: an interrupted install is done again.
$(STAMP): requirements.lock pyproject.toml
	@echo "installing into $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

venv-ray: $(STAMP) requirements-ray.lock ## Add Ray to .venv (large)
	@$(PIP) install --require-hashes --requirement requirements-ray.lock

demo: $(STAMP) ## Run the demonstration: a simulated cluster on this machine
	@$(BIN)/python -m cli.demo

# Tests of how fast something is run alone, all others on two CPUs. Status 5: none was chosen here.
ALONE := $(addprefix tests/integration/test_,agent_fence.py agent_manager.py agent_pacing.py demo.py)

test: $(STAMP) ## Run the tests
	@status=0; \
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder $(addprefix --ignore=,$(ALONE)) \
		$(PYTEST_ARGS) || [ $$? -eq 5 ] || status=1; \
	$(BIN)/python -m pytest $(ALONE) $(PYTEST_ARGS) || [ $$? -eq 5 ] || status=1; \
	exit $$status

# Every check runs, even after one has failed.
lint: $(STAMP) ## Check style, formatting, types and the import arrows
	@status=0; \
	$(BIN)/ruff check --quiet . || status=1; \
	$(BIN)/ruff format --quiet --check . || { echo "formatting differs: run 'make format'"; status=1; }; \
	$(BIN)/mypy --no-error-summary || status=1; \
	$(BIN)/lint-imports --no-logo || status=1; \
	exit $$status

format: $(STAMP) ## Format the code and sort the imports
	@$(BIN)/ruff check --quiet --select I --fix .
	@$(BIN)/ruff format --quiet .

bench: $(STAMP) ## Run the benchmarks
	@$(BIN)/python -m bench.all $(BENCH_ARGS)

# The experiment of FGD alone takes 30 CPU minutes, about 15 minutes on two idle cores. BENCH_ARGS="decisions" measures
# one anew and keeps what is known of the others; BENCH_ARGS='--note "what else ran on the machine"' is said on the page. The page is written even
# if one fails.
performance: $(STAMP) ## Run the benchmarks and write docs/performance.md from what they print
	@status=0; $(BIN)/python -m bench.all --into docs/performance.jsonl $(BENCH_ARGS) || status=1; \
	$(BIN)/python -m bench.report docs/performance.jsonl > docs/performance.md && exit $$status

campaign: $(STAMP) ## Kill live managers and agents at random moments, and check that no job is lost
	@$(BIN)/python -m bench.campaign $(CAMPAIGN_ARGS)

# uv reads the newest versions that pyproject.toml allows. It lives in a scratch folder: it is not needed otherwise.
# The Ray lock takes every version that the two share from the first lock.
lock: ## Write requirements.lock and requirements-ray.lock anew (needs the package index)
	@scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	$(PYTHON) -m venv "$$scratch" && \
	"$$scratch/bin/python" -m pip --quiet --disable-pip-version-check install uv && \
	export UV_CACHE_DIR="$$scratch/cache" PATH="$$scratch/bin:$$PATH" && \
	$(COMPILE) --upgrade $(LOCK_EXTRAS) --output-file requirements.lock pyproject.toml && \
	$(COMPILE) --upgrade --extra ray --constraint requirements.lock --output-file requirements-ray.lock pyproject.toml

clean: ## Remove .venv, caches and build results
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
