# Every target sets up what it needs, with Python 3.11 or newer: `make PYTHON=python3.13 test`.
# Tests export PYTHONHASHSEED: with the streams of conftest.py, a run computes what the last one did.
PYTHON     ?= python3
# Only the mpc extra needs Python 3.11; without one its tests are left out, and a line says so.
MPC_PYTHON ?= $(firstword $(foreach p,$(PYTHON) python3.11,$(shell $(p) -c 'import sys; print("$(p)" if sys.version_info[:2] == (3, 11) else "")' 2>/dev/null)))
PYTHON_OF_flower = $(PYTHON)
PYTHON_OF_mpc    = $(MPC_PYTHON)
PIP        := -m pip --disable-pip-version-check install --quiet
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

test-install: .venv/.dev    ## The wheel in fresh environments: each Python found, newest and oldest versions
	$(BIN)/python tests/install_matrix.py

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

BENCHES := throughput in_place curves private_curves papers_curves odd_scores local message_sizes noise secagg curator coverage hard_coverage calibration calibration_coverage label_privacy label_curves waiting many_sites
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
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python $(PIP) twine
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

# constraints.txt pins the development environment. The files in locks/ are whole
# installations with hashes, build tool included, so that nothing unnamed is fetched;
# locks/tests.txt is what the tests add to them.
COMPILE := uv pip compile pyproject.toml - -q --no-header --no-annotate
HASHED  := $(COMPILE) --generate-hashes
TOOLS   := pytest pytest-xdist hypothesis scikit-learn execnet iniconfig pluggy sortedcontainers joblib threadpoolctl narwhals

locks: .venv/.dev    ## Pin the newest versions again; `uv` must be installed
	echo | $(COMPILE) --universal -p 3.11 --extra dev -o constraints.txt --upgrade
	echo 'setuptools>=77' | $(HASHED) --universal -p 3.11 --extra deploy --extra demo -o locks/deploy.txt --upgrade
	echo 'setuptools>=77' | $(HASHED) --universal -p 3.11 --extra flower --extra demo -o locks/flower.txt --upgrade
	echo 'setuptools>=77' | $(HASHED) -p 3.11 --extra mpc -o locks/mpc.txt --upgrade
	grep -E '^($(subst $() ,|,$(TOOLS)))==' constraints.txt > locks/tests.txt

clean:           ## Remove the environments
	rm -rf .venv .venv-flower .venv-mpc

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -c constraints.txt -e '.[demo]'
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -c constraints.txt -e '.[dev]'
	touch $@ .venv/.demo

# As a site installs it from the lock, and what tests need on top.
.venv-%/.tests: pyproject.toml locks/%.txt locks/tests.txt
	@test -n "$(PYTHON_OF_$*)" || { echo "Python 3.11 is needed here: make MPC_PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON_OF_$*) -m venv .venv-$*
	.venv-$*/bin/python $(PIP) --require-hashes -r locks/$*.txt
	.venv-$*/bin/python $(PIP) --no-deps -r locks/tests.txt
	.venv-$*/bin/python $(PIP) --no-deps --no-build-isolation -e .
	touch $@
