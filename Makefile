# Everything a clone needs: `make demo`, `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export TIDELOG_REQUIRE_KERNEL := 1

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
KERNEL := src/tidelog/record/kernel
KERNEL_SOURCES := $(wildcard $(KERNEL)/*.py $(KERNEL)/*.pxd)

.PHONY: help setup demo test check format interop golden bench crash soak fuzz clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make .venv with everything in it, the kernel compiled

# Made again when what is to be installed or compiled has changed, and only then.
$(VENV)/.installed: pyproject.toml setup.py $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tidelog needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@echo "setting up $(VENV): the package, its extras, the compiled kernel (a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f $(KERNEL)/*.so
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup ## encode, decode and rewrite batches, and read what a real Kafka wrote
	@$(BIN)/python demo/demo.py

test: setup ## the tests, with the kernel compiled and interpreted
	$(BIN)/python -m pytest -n $(JOBS)
	TIDELOG_KERNEL=interpreted $(BIN)/python -m pytest -n $(JOBS) -m 'not slow' tests/unit tests/property tests/fuzz

check: setup ## formatter, linter, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## put the code into its format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

interop: setup ## real Kafka as referee (Java 17 and Maven needed)
	interop/resolve-jars
	$(BIN)/python -m pytest interop/tests

golden: ## let Kafka write tests/golden again (Java 17 and Maven needed)
	interop/resolve-jars
	interop/run-java Golden tests/golden

bench: setup ## every speed promise, as a ratio against its peer (Java 17 and Maven needed)
	interop/resolve-jars
	$(BIN)/python -m bench

soak: setup ## ten minutes of everything at once on one store
	$(BIN)/python -m tests.soak.soak

crash: setup ## every crash image of long workloads, and a thousand killed writers
	$(BIN)/python -m tests.crash.long_run

fuzz: setup ## a million mutated batches against the kernel under AddressSanitizer
	$(BIN)/python -m tests.fuzz.sanitized --batches 1000000

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis interop/.jars interop/.classes
	rm -f $(KERNEL)/*.so $(KERNEL)/*.c
