# `make run` and `make test` are all a newcomer needs; both build .venv first.
PYTHON ?= python3
INSTANCE ?= instances/candle-16.yaml
NAME = $(basename $(notdir $(INSTANCE)))
VENV = .venv
MUTANTS = 1000000
BIN = $(VENV)/bin

# `run` installs what running needs; everything else installs the tools of development as well.
.PHONY: run test test-heavy fuzz check types kernels layers laws style docs bench format clean

$(VENV)/.runs: pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' || { echo 'python3 lacks its venv module: apt-get install python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed: $(VENV)/.runs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs]'
	touch $@

run: $(VENV)/.runs
	$(BIN)/topoopt solve $(INSTANCE) --out out/$(NAME)

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not heavy' --durations=25 tests

test-heavy: $(VENV)/.installed
	$(BIN)/python -m pytest -m heavy -s tests

fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --mutants $(MUTANTS)

# Two at a time, the longest first: none needs another. Kernels are compiled meanwhile, once for all processes of `test`.
check: $(VENV)/.installed
	$(MAKE) --jobs=2 --output-sync=target types kernels docs layers laws style

types: $(VENV)/.installed
	$(BIN)/mypy

kernels: $(VENV)/.installed
	$(BIN)/topoopt doctor --compile

style: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

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

clean:
	rm -rf $(VENV) out
