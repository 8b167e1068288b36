# Every target sets up what it needs, with Python 3.11 or newer: `make PYTHON=python3.13 test`.
# Tests export PYTHONHASHSEED: with the streams of conftest.py, a run computes what the last one did.
PYTHON     ?= python3
# Only the mpc extra needs Python 3.11; without one its tests are left out, and a line says so.
MPC_PYTHON ?= $(firstword $(foreach p,$(PYTHON) python3.11,$(shell $(p) -c 'import sys; print("$(p)" if sys.version_info[:2] == (3, 11) else "")' 2>/dev/null)))
PYTHON_OF_flower = $(PYTHON)
PYTHON_OF_mpc    = $(MPC_PYTHON)
# A lock is a whole installation, build tool included. With --no-deps pip installs it as it stands: resolving it
# again would ask what the registry serves that day, and one new release could end the installation.
PIP        := -m pip --disable-pip-version-check install --quiet --no-deps
LOCKED     := $(PIP) --require-hashes --only-binary :all:
ITSELF     := $(PIP) --no-build-isolation -e .
BIN        := .venv/bin
export PYTHONHASHSEED ?= 0
# Tests start Python hundreds of times: it may keep what it has compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test test-core test-flower test-mpc test-all test-install test-browser fuzz check format bench evidence evidence-quick release-check mutants papers locks pictures dist docs clean

help:            ## List the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/.demo    ## Set up and run the demo: twelve simulated hospitals, a report
	$(BIN)/discreet demo

quick: .venv/.dev    ## The short unit tests, below a minute and without other processes: before every commit
	$(BIN)/pytest -m "not slow and not long" -q -n 2 tests/unit

test: test-core test-flower test-mpc    ## Set up and run the tests (at most 10 minutes on two cores)

test-core: .venv/.dev    ## The tests that need neither Flower nor the mpc extra
	$(BIN)/pytest -m "not slow" -n 2 --ignore tests/browser

# Modules with a test of that mark, and what conftest.py says of packages and pages.
marked = $(shell grep -rlE 'mark\.$(1)\b' tests --include='test_*.py')
FLOWER = $(call marked,flower) src/discreet/flower.py src/discreet/transport/flower
MPC    = $(call marked,mpc) $(call marked,both_numpys) src/discreet/mpc docs/exact.md papers/docs/unal2023.md

test-flower: .venv-flower/.tests    ## Flower's tests, in an environment of their own
	.venv-flower/bin/pytest -m "flower and not slow" -q -n 2 $(FLOWER)

ifeq ($(MPC_PYTHON),)
test-mpc:
	@echo "No Python 3.11 here: the tests of the mpc extra are left out (make MPC_PYTHON=...)."
else
test-mpc: .venv-mpc/.tests    ## The mpc extra's tests and the pinned releases, on Python 3.11 and numpy 1.26
	.venv-mpc/bin/pytest -m "(mpc or both_numpys) and not slow" -q -n 2 $(MPC)
endif

test-all: .venv/.dev .venv-flower/.tests    ## Also the long sweeps, and engines that tests/engines/install.sh installed
	FRESH_PROCESSES=1 $(BIN)/pytest -n 2 --ignore tests/browser
	.venv-flower/bin/pytest -m flower -q -n 2 $(FLOWER)
	$(MAKE) test-mpc test-install

test-install: .venv/.dev    ## The locks beside invented newer releases; the wheel on each Python, newest and oldest; each page's installation
	$(BIN)/python tests/locked_environments.py
	$(BIN)/python tests/install_matrix.py
	$(BIN)/python tests/page_installs.py

test-browser: .venv/.dev    ## Install chromium and axe-core, test the report in a real browser
	tests/browser/install.sh
	$(BIN)/pytest -q tests/browser

# FUZZ="--seconds 3600 --times 10 tests/properties" says how long, how many and where.
fuzz: .venv/.dev    ## Random search with fresh seeds until the time is up; prints what fails
	$(BIN)/python tests/fuzz.py $(FUZZ)

check: .venv/.dev .venv-flower/.tests    ## Format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --python-executable .venv-flower/bin/python src/discreet/transport/flower
	$(BIN)/lint-imports

format: .venv/.dev    ## Format and sort in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

BENCHES := throughput threads in_place curves private_curves papers_curves odd_scores local message_sizes noise secagg curator coverage hard_coverage calibration calibration_coverage label_privacy label_curves waiting many_sites
BENCHES_MPC := exact

bench: .venv/.dev .venv-mpc/.tests    ## Print the tables of ratios against the anchors
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done
	for name in $(BENCHES_MPC); do echo "== $$name"; .venv-mpc/bin/python bench/$$name.py || exit 1; done

evidence: .venv/.dev .venv-mpc/.tests    ## Measure every quoted figure again into results/, and render it into the pages (hours)
	$(BIN)/python -W ignore bench/evidence.py run

evidence-quick: .venv/.dev .venv-mpc/.tests    ## A small share of every such benchmark; results/ stays as it is
	$(BIN)/python -W ignore bench/evidence.py run --quick

release-check: .venv/.dev    ## Pages say what results/ says, and no result is older than its code
	$(BIN)/python bench/evidence.py check
	$(BIN)/python bench/evidence.py stale

pictures: .venv/.dev    ## Take the pictures of the documentation again
	tests/browser/install.sh
	PYTHONPATH=tests $(BIN)/python -W ignore tests/browser/screenshots.py docs/images

dist: .venv/.dev    ## Build a wheel and a source archive into dist/, checked by twine
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

docs: .venv/.dev    ## Build the documentation site into site/; a dead link ends it
	$(BIN)/mkdocs build --quiet --strict

mutants: .venv/.dev .venv-flower/.tests .venv-mpc/.tests    ## Break one privacy promise at a time in a copy: the tests must notice
	$(BIN)/python bench/mutants.py

PAPERS := boyd2015 cormode2023 sun2022 xu2025
papers: .venv/.dev .venv-mpc/.tests    ## Measure the papers' tables and figures again; ARGS="--stand-ins" needs no data
	failed=0; for name in $(PAPERS); do $(BIN)/python -m papers $$name $(ARGS) || failed=1; done; \
	.venv-mpc/bin/python -m papers unal2023 $(ARGS) || failed=1; \
	$(BIN)/python -m papers index $(ARGS) || failed=1; exit $$failed

# Hashes of every wheel and source archive, for every Python that we support.
COMPILE := uv pip compile -q --no-header --no-annotate --generate-hashes --universal -p 3.11 --upgrade
WHOLE   := echo 'setuptools>=77' | $(COMPILE) pyproject.toml -
# What the tests add to an environment that is installed as a site installs it, and what engines add to ours.
TOOLS   := pytest pytest-xdist hypothesis scikit-learn execnet iniconfig pluggy sortedcontainers joblib threadpoolctl narwhals
ENGINES := pyspark py4j pymysql

locks: .venv/.dev    ## Pin the newest versions again; `uv` must be installed
	$(WHOLE) --extra dev -o locks/dev.txt
	$(WHOLE) --extra deploy --extra demo -c locks/dev.txt -o locks/deploy.txt
	$(WHOLE) --extra flower --extra demo -o locks/flower.txt
	echo 'setuptools>=77' | $(subst --universal,,$(COMPILE)) pyproject.toml - --extra mpc -o locks/mpc.txt
	printf '%s\n' $(TOOLS) | $(COMPILE) - --no-deps -c locks/dev.txt -o locks/tests.txt
	printf '%s\n' $(ENGINES) | $(COMPILE) - --no-deps -o locks/engines.txt

clean:           ## Remove the environments
	rm -rf .venv .venv-flower .venv-mpc

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

# The demo runs on what a site installs.
.venv/.demo: .venv/bin/python pyproject.toml locks/deploy.txt
	$(BIN)/python $(LOCKED) -r locks/deploy.txt
	$(BIN)/python $(ITSELF)
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml locks/dev.txt
	$(BIN)/python $(LOCKED) -r locks/dev.txt
	$(BIN)/python $(ITSELF)
	touch $@ .venv/.demo

# As a site installs it from the lock, and what tests need on top.
.venv-%/.tests: pyproject.toml locks/%.txt locks/tests.txt
	@test -n "$(PYTHON_OF_$*)" || { echo "Python 3.11 is needed here: make MPC_PYTHON=python3.11 ..."; exit 1; }
	@{ $(PYTHON_OF_$*) -m venv .venv-$* && \
	  .venv-$*/bin/python $(LOCKED) -r locks/$*.txt && \
	  .venv-$*/bin/python $(LOCKED) -r locks/tests.txt && \
	  .venv-$*/bin/python $(ITSELF) && touch $@; } || \
	  { echo "No environment could be made from locks/$*.txt (pip says why above): the $* tests did not run."; exit 1; }
