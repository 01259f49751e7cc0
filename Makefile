# Everything a developer or CI runs. Needs make, Python 3.11 or newer with venv, and pip's index; nothing else.
# Another interpreter: make PYTHON=python3.12 setup

PYTHON ?= python3
SCENARIOS ?= scenarios/l4-qwen3-4b-fp8.yaml scenarios/l4-qwen3-4b-fp16.yaml scenarios/l4-qwen3-4b-tq4.yaml
OUT ?= out
DATA ?= ../shared/data
BENCH ?=
COMPILED ?=
PROFILE ?=
RECORD ?=
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup compiled cliff test check format coverage picture profile profiles validation bench machine toy notebook clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.stamp ## Create .venv with the tested releases; does nothing while it is up to date

.venv/.stamp: pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "installing into .venv (about a minute the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,calibrate,parquet]'
	@touch $@

compiled: .compiled/.stamp ## The engine as machine code in .compiled, two to three times as fast: PYTHONPATH=.compiled .venv/bin/kvcliff …

.compiled/.stamp: .venv/.stamp $(shell git ls-files sim calibrate workloads)
	@echo "compiling into .compiled (half a minute; needs a C compiler and Python's headers)"
	@rm -rf .compiled && mkdir -p .compiled/build
	@git ls-files -z | xargs -0 cp --parents -t .compiled/build
	@HATCH_BUILD_HOOKS_ENABLE=true $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps .compiled/build -w .compiled
	@rm -rf .compiled/build && $(BIN)/python -m zipfile -e .compiled/kvcliff-*.whl .compiled && touch $@

cliff: setup ## Compare the L4 scenarios with fp8, 16-bit and 4-bit KV; tables here, charts in out/
	$(BIN)/kvcliff run $(SCENARIOS) --check --out $(OUT)
	@echo
	@echo "pictures: $(OUT)/*/cliff.png, compared: $(OUT)/compared.png"

test: setup ## Run the tests on two cores
	$(BIN)/pytest -n 2 --dist loadfile

check: setup ## Lint, format, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: setup ## Rewrite files the way `make check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

coverage: setup ## Run the tests with branch coverage and its floor
	$(BIN)/pytest -n 2 --dist loadfile --cov --cov-report=term

picture: setup ## Draw the README's picture and write its tables again (some three minutes)
	$(BIN)/python notebooks/readme_tables.py

profile: setup ## Fit the profiles of the founding documents to their step times again
	$(BIN)/python -m calibrate.l4_document > .profile.tmp && mv .profile.tmp sim/steptime/profiles/l4-qwen3-4b-fp8.yaml
	$(BIN)/python -m calibrate.queue_document > .profile.tmp && mv .profile.tmp sim/steptime/profiles/toy-transformer.yaml
	$(BIN)/python -m calibrate.small_gpu_document > .profile.tmp && mv .profile.tmp sim/steptime/profiles/8gb-class.yaml

profiles: setup ## Fit the shipped device profiles to the public measurements again (two minutes)
	$(BIN)/python -m calibrate.shipped $(DATA)/measurements

validation: setup ## Judge profiles and simulator against public measurements; pages in notebooks/validation (six minutes)
	$(BIN)/kvcliff validate steps $(DATA)/measurements/micro_aic_*.csv \
	  $(DATA)/measurements/micro_vllm_step_times_qwen.csv --check --out notebooks/validation
	$(BIN)/kvcliff validate e2e $(DATA)/measurements --jobs 2 --check --out notebooks/validation
	$(BIN)/kvcliff validate cliff $(DATA)/cpu_cliff --check --out notebooks/validation
	$(BIN)/kvcliff validate scenarios scenarios/qwen3-1.7b-8gb --check --out notebooks/validation
	$(BIN)/kvcliff validate memory $(DATA)/capacity_cases/cases.jsonl --check --out notebooks/validation
	$(BIN)/python notebooks/readme_tables.py validation memory

bench: setup $(if $(COMPILED),compiled) ## Measure the simulator's speed (five minutes); BENCH="conv2000 sess48" COMPILED=1 PROFILE=conv2000 RECORD=1
	PYTHONPATH=tests:$(if $(COMPILED),.compiled,.) $(BIN)/python -P -m bench $(BENCH) --data $(DATA) $(if $(PROFILE),--profile $(PROFILE)) $(if $(RECORD),--record)
ifneq ($(RECORD),)
	$(BIN)/python notebooks/readme_tables.py speed
endif

machine: setup ## The closed proof here: time operations, predict a small transformer's steps, compare (six minutes)
	$(BIN)/kvcliff validate machine --check --out $(OUT)/machine

toy: setup ## Serve a queue with a toy transformer here, four policies, measured beside simulated (two minutes)
	$(BIN)/kvcliff validate toy --check

notebook: setup ## Execute the notebook into out/
	@mkdir -p $(OUT)
	$(BIN)/jupyter-execute notebooks/l4_cliff.ipynb --output $(abspath $(OUT))/l4_cliff.ipynb

clean: ## Remove outputs and caches; .venv stays
	rm -rf out dist build .compiled .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
