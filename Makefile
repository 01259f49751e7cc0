# Everything a developer or CI runs. Needs make, Python 3.11 or newer with venv, and pip's index; nothing else.
# Another interpreter: make PYTHON=python3.12 setup

PYTHON ?= python3
SCENARIO ?= scenarios/l4-qwen3-4b-fp8.yaml
OUT ?= out
PICTURE ?= docs/picture
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup cliff test check format coverage picture clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Create .venv with the tested releases; does nothing while it is up to date

.venv/.stamp: pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "installing into .venv (about a minute the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

cliff: setup ## Run the L4 scenario: table, knee and chart in out/
	$(BIN)/kvcliff run $(SCENARIO) --out $(OUT)

test: setup ## Run the tests on two cores
	$(BIN)/pytest -n 2

check: setup ## Lint, format, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## Rewrite files the way `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: setup ## Run the tests with branch coverage and its floor
	$(BIN)/pytest -n 2 --cov --cov-report=term

picture: setup ## Draw the README's picture again
	$(BIN)/kvcliff run $(SCENARIO) --out $(PICTURE)

clean: ## Remove outputs and caches; .venv stays
	rm -rf out dist build .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
