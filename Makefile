# Everything a clone needs: `make demo`, `make test`. `make help` lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
export TIDELOG_REQUIRE_KERNEL := 1

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
# What runs the kernel itself; the rest would only run it once more, slowly.
INTERPRETED := tests/unit/record tests/unit/compaction tests/property tests/fuzz
KERNEL := src/tidelog/record/kernel
KERNEL_SOURCES := $(wildcard $(KERNEL)/*.py $(KERNEL)/*.pxd)

.PHONY: help setup demo demo-kafka test slow spark cluster check format interop golden bench crash soak fuzz lowest growth docs report-check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make .venv with everything in it, the kernel compiled

# Made again when what is to be installed or compiled has changed, and only then.
$(VENV)/.installed: pyproject.toml requirements-dev.lock setup.py $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tidelog needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	@echo "setting up $(VENV): the package, its extras, the compiled kernel (two or three minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@rm -f $(KERNEL)/*.so
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint requirements-dev.lock --editable '.[dev]'
	@touch $@

demo: setup ## seven steps: Kafka's files, a million records, kill -9, time travel, compaction, a stream, a report
	@$(BIN)/python -m demo

test: setup ## the tests, with the kernel compiled and interpreted
	$(BIN)/python -m pytest -n $(JOBS) -m 'not slow' --ignore tests/spark --ignore tests/cluster
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m 'not slow' tests/spark tests/cluster
	TIDELOG_KERNEL=interpreted $(BIN)/python -m pytest -n $(JOBS) -m 'not slow' $(INTERPRETED)

slow: setup ## the tests that take long: packages, every crash image of the short workloads, a minute of soak
	$(BIN)/python -m pytest -n $(JOBS) -m slow --ignore tests/spark

docs: setup ## the documentation as a site in site/, links checked
	$(BIN)/mkdocs build

demo-kafka: demo ## the demo, then a real broker that starts on a copy of it (Java 17 and Maven needed)
	interop/resolve-jars
	@$(BIN)/python -m demo.with_kafka

spark: setup ## the long tests on Spark: drivers and workers killed, Spark Connect, a declarative pipeline
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m slow tests/spark

cluster: setup ## the tests on a real standalone cluster of Spark, on loopback
	$(BIN)/python -m tests.cluster

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

golden: setup ## let Kafka write tests/golden again (Java 17 and Maven needed)
	interop/resolve-jars
	interop/run-java Golden tests/golden
	$(BIN)/python -m interop.golden_compaction tests/golden/compaction

bench: setup ## every speed promise, as a ratio against its peer (Java 17 and Maven needed)
	interop/resolve-jars
	$(BIN)/python -m bench; code=$$?; test $$code -gt 1 || $(BIN)/python -m bench.page; exit $$code

report-check: setup ## look at reports in a real browser (Chromium needed)
	$(BIN)/python -m tests.report_check $(if $(KEEP),--keep $(KEEP))

soak: setup ## ten minutes (SECONDS=600) of everything at once on one store
	$(BIN)/python -m tests.soak.soak --seconds $(or $(SECONDS),600)

crash: setup ## every crash image of long workloads, and a thousand killed writers
	$(BIN)/python -m tests.crash.long_run

lowest: setup ## tests with every dependency at its lower bound, PySpark too, in an environment of their own (Java 17 needed)
	$(BIN)/python -m tests.lowest --spark

growth: setup ## time and memory from 64 MiB to 4 GiB, and docs/performance.md with it (12 GiB of disk)
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.page

fuzz: setup ## a million (BATCHES=1000000) mutated batches against the kernel under AddressSanitizer; LONG=1 for many millions
	$(BIN)/python -m tests.fuzz.sanitized --batches $(or $(BATCHES),1000000) $(if $(LONG),--long)

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis interop/.jars interop/.classes
	rm -f $(KERNEL)/*.so $(KERNEL)/*.c
