# Few verbs. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV   := .venv
PYTHON := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

# Two workers take the files one by one, each with a lab of its own: the fast ones first, while the labs are made, then
# those of the lab; of each kind the longest first.
LONGEST := ssh/test_transaction.py $(addprefix lab/test_,rollout.py transaction.py kubelets.py site.py rollout_faults.py)
SORTED  = $(filter $(wildcard tests/$(1)/test_*.py),$(LONGEST:%=tests/%)) \
  $(filter-out $(LONGEST:%=tests/%),$(wildcard tests/$(1)/test_*.py))
PYTEST  := $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 20

include lab/lab.mk

.PHONY: help setup demo test test-fast lint lock bench clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP) ## install everything that development needs into .venv

$(STAMP): requirements.lock pyproject.toml
	@sh lab/setup-python.sh $(VENV)
	@touch $@

demo: setup ## bring up the lab, provision it, verify it, run a pinned pod
	@$(PYTHON) -m lab demo

test: setup lint ## every check and every test but those that take long, the lab included
	@$(PYTHON) -m lab require
	@sh tests/beside.sh 'nice $(PYTHON) -m lab prepare .lab .lab-gw1' \
	  '$(PYTEST) $(call SORTED,ssh) tests/unit tests/conformance $(call SORTED,lab)'

test-fast: setup ## the tests that need neither a lab nor an sshd
	@$(PYTHON) -m pytest -q -m 'not lab and not ssh'

lint: setup ## format, lint and types
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy

bench: setup ## measure every figure that the README quotes
	@for bench in bench/*.py; do echo "== $$bench"; $(PYTHON) $$bench || exit 1; done

lock: setup ## pin the dependencies again
	@$(VENV)/bin/pip-compile --quiet --strip-extras --extra verify --extra dev --generate-hashes --allow-unsafe \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.lock pyproject.toml

clean: ## remove what make made (the cache outside the tree stays)
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
