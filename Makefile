# Two commands on a fresh machine: `make demo` and `make test`. Both set up a virtual environment of their own.

PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test check benchmarks clean

demo: $(VENV)/ready
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python jobs/full_benchmark.py

test: check
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pytest

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The anchors and their bars, one script each; every figure is a ratio of two things measured in turn.
benchmarks: $(VENV)/ready
	for script in tests/benchmarks/bench_*.py; do $(BIN)/python -m tests.benchmarks.$$(basename $$script .py) || exit 1; done

# torch first and by itself: with nothing installed, a bare requirement for it takes a CUDA build of gigabytes.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results store
