# Two commands are enough: `make repro` runs the pipeline, `make test` the tests; each sets up .venv first.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
# Processes that run tests side by side; their files are shared out, each file's tests stay in order
WORKERS ?= 2
# A file's tests run in one process, in the order that tests/conftest.py gives.
SPREAD := --dist loadfile --no-loadscope-reorder
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1

.DEFAULT_GOAL := help
.PHONY: help install system-packages repro hypernyms entailment grounded test test-full check check-lock format clean docs

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

install: $(VENV)/.installed ## Make .venv with the pinned packages (quick when done)

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "Sightword needs Python 3.11.4 or newer; this is " + sys.version.split()[0] + " (make PYTHON=python3.12 chooses another)")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

repro: install ## Run the pipeline on what params.yaml says (the sample at first)
	dvc repro

hypernyms: install ## Run the pipeline of hypernyms (on its sample at first)
	dvc repro hypernyms/dvc.yaml

entailment: install ## Run the pipeline of entailment (on its sample at first)
	dvc repro entailment/dvc.yaml

grounded: install ## Run the pipeline of the grounded space (on its sample at first)
	dvc repro grounded/dvc.yaml

test: install ## Run the tests: minutes, no root, no system packages
	python -m pytest -m 'not full' -n $(WORKERS) $(SPREAD) --durations=10

test-full: install ## Run the long and the system-level tests too
	python -m pytest -m full -n $(WORKERS) $(SPREAD) --durations=10

system-packages: ## Install what test-full needs of the system, where it is missing: an SSH server, a browser (Debian, root)
	@command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openssh-server; }
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; }

check: install ## Check format, lint and types
	ruff format --check .
	ruff check .
	mypy

check-lock: install ## Check that dvc.lock belongs to code and parameters: no data needed, for pull requests
	python -m pipeline.cli doctor --lock

docs: install ## Build the documentation in docs/_build
	python -c 'import pathlib, pipeline.params.reference as r; pathlib.Path("docs/parameters.md").write_text(r.page())'
	python -m sphinx -q -W --keep-going -b html docs docs/_build

format: install ## Format the code and fix what lint can fix
	ruff format .
	ruff check --fix .

clean: ## Remove what the tools left (not the data, not .venv)
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
