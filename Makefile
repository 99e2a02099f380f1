# Two commands are enough: `make repro` runs the pipeline, `make test` the tests; each sets up .venv first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1

.DEFAULT_GOAL := help
.PHONY: help install repro test test-full check format clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(VENV)/.installed ## Make .venv with the pinned packages (quick when done)

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Sightword needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (make PYTHON=python3.12 chooses another)")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

repro: install ## Run the pipeline on what params.yaml says (the sample at first)
	dvc repro

test: install ## Run the tests: minutes, no root, no system packages
	python -m pytest -m 'not full' --durations=10

test-full: install ## Run the long and the system-level tests too
	python -m pytest -m full --durations=10

check: install ## Check format, lint and types
	ruff format --check .
	ruff check .
	mypy

format: install ## Format the code and mend what lint can mend
	ruff format .
	ruff check --fix .

clean: ## Remove what the tools left (not the data, not .venv)
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
