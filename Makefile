# Two commands are enough: `make repro` runs the pipeline, `make test` the tests; each installs into .venv what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3
VENV := .venv
# Extras of pyproject.toml that users get; ssh and s3 are for remotes of a lab
EXTRAS ?= pipeline,search
# Processes that run tests side by side; their files are shared out, each file's tests stay in order
WORKERS ?= 2
# A file's tests run in one process, in the order that tests/conftest.py gives.
SPREAD := --dist loadfile --no-loadscope-reorder
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export DVC_NO_ANALYTICS := 1

.DEFAULT_GOAL := help
.PHONY: help install dev system-packages repro hypernyms entailment grounded test test-full check check-lock format clean docs

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

install: $(VENV)/.with-$(EXTRAS) ## Install Sightword and the pinned packages into .venv (quick when done)

dev: $(VENV)/.dev ## Install what tests, checks and documentation need too

$(VENV)/.with-$(EXTRAS): extras = $(EXTRAS)
$(VENV)/.with-$(EXTRAS): brings = about 130 packages, 1.5 GB,
$(VENV)/.dev: extras = dev
$(VENV)/.dev: brings = about 215 packages, 2.1 GB,
$(VENV)/.with-$(EXTRAS) $(VENV)/.dev: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4) and "Sightword needs Python 3.11.4 or newer; this is " + sys.version.split()[0] + " (make PYTHON=python3.12 chooses another)")'
	$(PYTHON) -m venv $(VENV)
	@echo 'Installing $(brings) into $(VENV); a PyTorch with CUDA, the default on Linux, brings several GB more (docs/machine.md).'
	$(VENV)/bin/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[$(extras)]'
	@touch $(VENV)/.with-$(EXTRAS) $@

# DVC ignores a further pipeline that has not run (its .dvcignore).
define further
rm -f $@/.dvcignore
dvc repro $@/dvc.yaml
@echo 'The report is in report/$@, the scores in metrics/$@. To keep the run: git add -A . && git commit'
endef

repro: install ## Run the pipeline on what params.yaml says (the sample at first)
	dvc repro
	@echo 'The report: report/index.html. The encoder: models/encoder. The scores: dvc metrics show. To keep the run: git add -A . && git commit'

hypernyms: install ## Run the pipeline of hypernyms (on its sample at first)
	$(further)

entailment: install ## Run the pipeline of entailment (on its sample at first)
	$(further)

grounded: install ## Run the pipeline of the grounded space (on its sample at first)
	$(further)

test: dev ## Run the tests: minutes, no root, no system packages
	python -m pytest -m 'not full' -n $(WORKERS) $(SPREAD) --durations=10

test-full: dev ## Run the long and the system-level tests too
	python -m pytest -m full -n $(WORKERS) $(SPREAD) --durations=10

system-packages: ## Install what test-full needs of the system, where it is missing: an SSH server, a browser (Debian, root)
	@command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends openssh-server; }
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; }

check: dev ## Check format, lint and types
	ruff format --check .
	ruff check .
	mypy

check-lock: install ## Check that dvc.lock belongs to code and parameters: no data needed, for pull requests
	python -m pipeline.cli doctor --lock

docs: dev ## Build the documentation in docs/_build
	python -c 'import pathlib, pipeline.params.reference as r; pathlib.Path("docs/parameters.md").write_text(r.page())'
	python -m sphinx -q -W --keep-going -b html docs docs/_build

format: dev ## Format the code and fix what lint can fix
	ruff format .
	ruff check --fix .

clean: ## Remove what the tools left (not the data, not .venv)
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
