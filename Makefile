# Every target sets up .venv by itself; it is made again when pyproject.toml or constraints.txt change,
# or when another Python is asked for (PYTHON=python3.12 make test). VENV names another place for it.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2

VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error $(PYTHON) does not run; name a Python from 3.11 on, as in PYTHON=python3.12 make test)
endif
READY := $(VENV)/.ready-$(VERSION)
BIN := $(VENV)/bin

# Workers already share the cores: threads of their libraries would wait for each other, spinning.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

# What another Python, or another release of a dependency, would break first, in a minute or two.
QUICK := tests/test_*.py tests/pinned tests/saved/test_older_files.py tests/kernels/test_spectra.py tests/spaces \
	tests/problems tests/solvers/test_closed_form.py tests/solvers/test_newton.py tests/solvers/test_embedding_sgd.py \
	tests/estimators/test_base.py tests/estimators/test_registry.py tests/estimators/test_toy_estimator.py \
	tests/laws/test_losses.py tests/laws/test_architecture.py tests/cli/test_app.py

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: bandit bench help environment demo reproduce test quick slow coverage count wheel lint format clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /|/' | awk -F'|' '{printf "make %-12s %s\n", $$1, $$2}'

demo: $(READY) ## fit the example transitions and say what their policy is worth; writes demo/
	$(BIN)/dualembed fit policy-evaluation src/dualembed/examples/transitions.parquet --state stock,demand \
		--reward profit --episode shop --discount 0.95 --out demo/model.dualembed --report demo/report.html

reproduce: $(READY) ## run the paper's six experiments (about an hour on two cores); writes results/, goes on where it stopped
	@for name in illustration noisy quantum navigation cartpole puma; do $(BIN)/dualembed reproduce $$name || exit; done

environment: $(READY) ## set up the environment, and nothing else

test: lint ## check style and types, then run the tests
	$(PYTEST) -m "not slow"

quick: $(READY) ## run a part of the tests that takes a minute or two
	$(PYTEST) -m "not slow" $(QUICK)

slow: $(READY) ## run the few tests that take longer
	$(PYTEST) -m slow

coverage: $(READY) ## run the tests and show which lines they reach; htmlcov/ has each of them
	$(PYTEST) -m "not slow" --cov=dualembed --cov-report=term:skip-covered --cov-report=html

count: ## count lines of code and files by package
	@$(PYTHON) benchmarks/count.py

wheel: $(READY) ## build the wheel, and try it in an environment of its own
	rm -rf build/wheel
	$(BIN)/python -m pip wheel -qq --no-deps -w build/wheel .
	$(PYTHON) -m venv --clear build/clean
	build/clean/bin/python -m pip install -qq -c constraints.txt build/wheel/dualembed-*.whl
	cd build && clean/bin/dualembed --help >/dev/null
	cd build && clean/bin/dualembed fit policy-evaluation \
		"$$(clean/bin/python -c 'from dualembed.examples import TRANSITIONS; print(TRANSITIONS)')" \
		--state stock,demand --reward profit --episode shop --discount 0.95 --out wheel/model.dualembed

lint: $(READY) ## check style, format, types and public docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.docstrings

format: $(READY) ## put the code into the house format, repair what can be repaired, and index the tasks
	$(BIN)/python -c 'from dualembed.estimators.registry import write_index; write_index()'
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## run a quick version of every benchmark (about a quarter of an hour)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/dualembed bench --quick

bandit: $(READY) ## fetch the Open Bandit data (1.3 MB), which one test reads where it is there
	$(BIN)/python -m pip download -q --no-deps -d build/open-bandit obp==0.4.1

clean: ## remove the environment, caches and everything the commands wrote
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage htmlcov build dist demo results
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with $(PYTHON) (once; takes a minute)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[test]'
	@touch $@
