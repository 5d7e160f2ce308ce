# Every target makes its own .venv and installs what it needs; the stamps make the second time quick.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
# One BLAS thread per test worker: the workers already fill the cores. Bytecode is written, also where the shell says
# otherwise: hundreds of tests start a process of fedsvd, and each would compile the whole package.
TESTENV := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# What an installation depends on: the passes of the kernels are compiled with it.
BUILT := pyproject.toml hatch_build.py src/fedsvd/kernels/build.py src/fedsvd/kernels/passes.c src/fedsvd/kernels/narrow.h
# The tiers: `make test` leaves out what is marked and the rest of parameter grids (`full`, declared in tests/tiers.py).
UNMARKED := not slow and not scale and not torch
QUICK := $(UNMARKED) and not full
# The last digits of a result depend on the BLAS kernel, so what compares numbers also runs on kernels of other CPUs:
# in `make test` on one that this machine can run and does not use itself, another one every day, in `make test-all` on
# all of them.
CORES ?= SkylakeX Haswell Sandybridge Nehalem
TIER ?= $(UNMARKED)
NUMERICAL := tests/unit/linalg tests/protocol/test_own_parts.py tests/e2e/test_exactness.py \
	tests/unit/estimators/test_linear_regression.py

.DEFAULT_GOAL := help
.PHONY: help demo check test test-all test-cores bench chaos reproduce docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BUILT) | $(VENV)/bin/python
	$(PIP) install -e '.[data,report]'
	@touch $@

$(VENV)/.dev: $(BUILT) lab/pyproject.toml | $(VENV)/bin/python
	$(PIP) install -e '.[dev]' -e ./lab
	@touch $@

$(VENV)/.all: pyproject.toml tests/constraints.txt $(VENV)/.dev
	$(PIP) install -c tests/constraints.txt torch
	@touch $@

$(VENV)/.lab: $(BUILT) lab/pyproject.toml | $(VENV)/bin/python
	$(PIP) install -e . -e './lab[mpc]'
	@touch $@

demo: $(VENV)/.demo  ## a first look: three parties factorise a bundled data set together
	$(BIN)/fedsvd demo

check: $(VENV)/.dev  ## the quick first answer, about a minute: ruff, mypy --strict, layers and other laws of the code
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy & types=$$!; $(TESTENV) $(PYTEST) -q tests/architecture; laws=$$?; wait $$types && exit $$laws

test: check  ## what CI runs (minutes): check, tests with a covering part of long grids, another CPU's kernel
	$(TESTENV) $(PYTEST) -n auto --dist worksteal -m "$(QUICK)" --ignore=tests/architecture
	$(MAKE) --no-print-directory test-cores TIER="$(QUICK)" CORES="$$($(BIN)/python -m tests.kernel --of-today $(CORES))"

test-cores: $(VENV)/.dev  ## the numerical tests with the BLAS kernels of other CPUs (CORES=...)
	@for core in $(CORES); do \
		if $(BIN)/python -m tests.kernel $$core; then \
			$(TESTENV) OPENBLAS_CORETYPE=$$core $(PYTEST) -n $$(getconf _NPROCESSORS_ONLN) --dist worksteal \
				-p no:randomly -m "$(TIER)" $(NUMERICAL) || exit 1; \
		fi; \
	done

test-all: check $(VENV)/.all  ## everything: all cases of all grids, slow, scale and PyTorch tests, all kernels
	$(TESTENV) $(PYTEST) -n auto --dist worksteal
	$(MAKE) --no-print-directory test-cores

bench: $(VENV)/.dev  ## speed as ratios to NumPy and SciPy in the same run; writes JSON
	$(BIN)/python -m benchmarks.run

reproduce: $(VENV)/.lab  ## the paper's tables and figures beside ours, in sizes that take minutes
	$(BIN)/fedsvd reproduce all --quick

docs: $(VENV)/.dev  ## the documentation as web pages in docs/_build; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

chaos: $(VENV)/.dev  ## everything that goes wrong on purpose: prints the table of cases and outcomes
	$(TESTENV) $(BIN)/python -m benchmarks.chaos

clean:  ## remove the virtual environment and all that was built
	rm -rf $(VENV) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks results
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
