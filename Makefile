# `make run` and `make test` are all a newcomer needs; both build .venv first.
PYTHON ?= python3
INSTANCE ?= instances/candle-16.yaml
NAME = $(basename $(notdir $(INSTANCE)))
VENV = .venv
MUTANTS = 1000000
CALLS = 1000000
NATIVE = $(wildcard topoopt/native/src/* topoopt/native/cmake/CMakeLists.txt)
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal -m 'not heavy'

# `run` installs what running needs; everything else installs the tools of development as well.
.PHONY: run test test-all test-times results mutants test-native fuzz fuzz-native native wheel check types layers laws style docs bench format clean

$(VENV)/.runs: pyproject.toml $(NATIVE)
	@$(PYTHON) -c 'import ensurepip, venv' || { echo 'python3 lacks its venv module: apt-get install python3-venv' >&2; exit 1; }
	@command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
		echo 'no C++ compiler here: the ziglang wheel (100 MB) compiles the native module, which takes some minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed: $(VENV)/.runs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev --group docs
	touch $@

run: $(VENV)/.runs
	$(BIN)/topoopt solve $(INSTANCE) --force -o out/$(NAME)

test: $(VENV)/.installed
	$(PYTEST) --cases quick tests

# What is slow: studies in small, blocks of documents, proofs, kills. SLICE=K/N takes the K-th of N equal parts.
SLICE = 0/1
test-all: $(VENV)/.installed
	$(PYTEST) --cases slow:$(SLICE) --durations=25 tests

# The list of slow cases, from all cases, on an idle machine.
test-times: $(VENV)/.installed
	rm -f tests/slow_cases.tsv
	$(PYTEST) --write-times tests

# Tables of docs/results and of studies, made again: hours.
results: $(VENV)/.installed
	$(BIN)/python -m pytest -m heavy -s tests
	$(MAKE) mutants

# Faults put into the product, and which the tests see: docs/results/tests.md. Needs cmake and g++ for the native module.
mutants: $(VENV)/.installed
	for cases in quick slow; do $(BIN)/python -m tests.mutants record $$cases; $(BIN)/python -m tests.mutants run $$cases; done
	$(BIN)/python -m tests.mutants table
	$(BIN)/python -m tests.mutants.native

fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --mutants $(MUTANTS)

# After an edit of the native module: compiles what changed.
native: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $(VENV)/.runs $(VENV)/.installed

# The native module with sanitizers and checked views: its tests, and calls with damaged arguments.
test-native: $(VENV)/.installed
	$(BIN)/python -m tests.native.checked pytest -m 'not heavy' --ignore tests/native/test_build.py tests/native

fuzz-native: $(VENV)/.installed
	$(BIN)/python -m tests.native.checked fuzz --calls $(CALLS)

wheel: $(VENV)/.installed
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

# Two at a time, the longest first: none needs another.
check: $(VENV)/.installed
	$(MAKE) --jobs=2 --output-sync=target types docs layers laws style

types: $(VENV)/.installed
	$(BIN)/mypy

style: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror topoopt/native/src/*

layers: $(VENV)/.installed
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

laws: $(VENV)/.installed
	$(BIN)/python -m tests.house

docs: $(VENV)/.installed
	PYTHONPATH=. NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/.installed
	$(BIN)/python -m tests.benchmarks

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i topoopt/native/src/*

clean:
	rm -rf $(VENV) out
