# Few verbs. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV   := .venv
PYTHON := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
COLLECTED := $(VENV)/.collected

# The lab is built and its nodes boot first, where that is not done yet: Go and a boot keep every core busy, and
# beside tests they take twice as long. What needs no virtual node then runs at once, so that no core is idle: the
# tests of hosts wait for a kubelet most of the time, those with an API server for the server. The tests of the node
# have both cores for themselves. Two workers with a lab each take them file by file (those that share the provisioned
# node like one), the longest first.
LONGEST    := $(addprefix tests/lab/test_,reboot.py site.py verify.py pods.py transaction.py)
LAB        := $(LONGEST) $(filter-out $(LONGEST),$(wildcard tests/lab/test_*.py))
HOSTS      := -n 6 --dist worksteal --durations 20 tests/ssh
UNITS      := -n 3 --dist worksteal --durations 20 tests/unit tests/fuzz tests/machines tests/oracle tests/conformance tests/wheel
NODE_TESTS := -n 2 --dist loadfile --no-loadscope-reorder --durations 20 -m "vm and not long" $(LAB)
API_TESTS  := -n 2 --dist loadfile --durations 20 -m "lab and not vm and not long" tests/lab

ifndef PYTEST_DEBUG_TEMPROOT
PYTEST_DEBUG_TEMPROOT := $(shell sh tests/scratch.sh)
endif
export PYTEST_DEBUG_TEMPROOT
unexport PYTHONDONTWRITEBYTECODE # each worker of pytest would compile every test again

include lab/lab.mk

.PHONY: bundle docs image box release help setup demo test test-fast test-dependencies lint lock bench bench-plans clean

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

setup: $(STAMP) ## install everything that development needs into .venv

$(STAMP): requirements.lock pyproject.toml
	@sh lab/setup-python.sh $(VENV)
	@touch $@

demo: setup ## bring up the lab, provision it, verify it, run a pinned pod
	@$(PYTHON) -m lab demo

# With `exec` the signal that ends a run reaches beside.sh, which ends what the tests have started: make's shell alone
# would end.
test: setup ## every check and every test but those that take long, the lab included
	@$(PYTHON) -m lab require
	@exec sh tests/beside.sh '$(MAKE) --no-print-directory $(COLLECTED)' '$(PYTHON) -m lab prepare .lab .lab-gw1'
	@export PATH="$$PATH:$$($(PYTHON) -m lab programs)"; exec sh tests/beside.sh 'nice -n 5 $(PYTHON) -m pytest $(API_TESTS)' 'nice -n 10 $(MAKE) --no-print-directory lint' 'nice -n 10 $(PYTHON) -m pytest $(HOSTS)' 'nice -n 10 $(PYTHON) -m pytest $(UNITS)'
	@exec sh tests/beside.sh '$(PYTHON) -m pytest $(NODE_TESTS)'

# pytest compiles a test once and keeps it: 35 s of CPU time for all, which each of eleven workers would take. What
# cannot be collected, the tests themselves say.
$(COLLECTED): $(STAMP)
	-@nice -n 19 $(PYTHON) -m pytest -o addopts=--import-mode=importlib -p no:terminal --collect-only
	@touch $@

test-fast: setup ## the tests that need neither a lab nor an sshd
	@$(PYTHON) -m pytest -q -m 'not lab and not ssh and not long'

# With the lock the tests run everywhere else. These are the ones that lean on other packages most.
DEPENDENCIES  := oldest newest
LEAN_ON_OTHERS := $(addprefix tests/unit/,test_cli.py lib/test_given.py run/test_pyinfra_cli.py commands/test_machine.py commands/test_screen.py planning/test_profile.py ssh verification)

test-dependencies: ## the tests that lean on other packages, with the oldest and the newest that pyproject.toml allows (needs an index of packages)
	@set -e; for which in $(DEPENDENCIES); do sh tests/dependencies.sh $$which $(LEAN_ON_OTHERS); done

lint: setup ## format, lint, imports and types; shell too
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/lint-imports --no-cache --no-logo
	@$(VENV)/bin/shellcheck .ci/run $$(find src roles lab tests docs/examples -name '*.sh' -not -path 'src/numaforge/roles/*') $$(find lab/rootfs/usr/lib/lab -type f -not -name '*.py*')
	@$(VENV)/bin/mypy

bench: setup ## measure the figures of docs/figures.md
	@for bench in bench/*.py; do echo "== $$bench"; $(PYTHON) $$bench || exit 1; done

docs: setup ## dist/docs: the documentation as a site, every link checked
	@$(PYTHON) docs/site.py

bundle: setup ## dist/numaforge.pyz: numaforge with all that it needs, in one file, for this Python and machine
	@$(PYTHON) packaging/bundle.py dist/numaforge.pyz

# Its kubelet is KUBELET, or none: the unit alone, as kubeadm's package has it.
image: setup ## dist/image.tar: a root file system whose nodes plan themselves, and dist/image.xml, its tests (SUITE=trixie KUBELET=FILE)
	@rm -rf dist/kubelet && mkdir -p dist/kubelet/usr/bin
	@cd lab/rootfs && cp -r --parents usr/lib/systemd/system/kubelet.service* "$(CURDIR)/dist/kubelet"
	@$(if $(KUBELET),install -m 755 "$(KUBELET)" dist/kubelet/usr/bin/kubelet,true)
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH:/usr/sbin:/sbin" MIRROR="$$NUMAFORGE_DEBIAN_MIRROR" SUITE="$(SUITE)" FILES=dist/kubelet \
	  PACKAGES="$(PACKAGES)" \
	  WISH=docs/examples/image/image.yaml sh docs/examples/image/bake.sh dist/image.tar dist/image.xml

box: setup ## dist/box: such an image as a box for Vagrant with libvirt, and the key to log in with
	@$(MAKE) image PACKAGES=systemd-sysv,udev,python3,dbus,kmod,procps,linux-image-amd64,openssh-server,sudo
	@PATH="$$PATH:/usr/sbin:/sbin" sh docs/examples/image/box.sh dist/image.tar dist/box

release: setup ## dist/release: the wheel, the sdist, the bundle, their SBOM and checksums, and the tag's message
	@$(PYTHON) packaging/release.py dist/release

bench-plans: setup ## plans beside what OpenShift's tool makes of the same machines: docs/comparison.md
	@$(PYTHON) bench/comparison/plans.py

lock: setup ## pin the dependencies again: those of development, and of these what a release installs
	@$(VENV)/bin/pip-compile --quiet --strip-extras --extra dev --generate-hashes --allow-unsafe \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file requirements.lock pyproject.toml
	@$(VENV)/bin/pip-compile --quiet --strip-extras --constraint requirements.lock --generate-hashes --allow-unsafe \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --output-file src/numaforge/requirements.lock pyproject.toml

clean: ## remove what make made (the cache outside the tree stays)
	@rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
