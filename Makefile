# Every target sets up what it needs. PYTHON must be 3.11 (the mpc extra's limit).
PYTHON ?= python3
PIP    := -m pip --disable-pip-version-check install --quiet
BIN    := .venv/bin

.PHONY: help demo test test-all test-numpy2 check format bench mutants papers locks test-browser pictures dist docs clean

help:            ## List the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/.demo    ## Set up and run the demo: twelve simulated hospitals, a report
	$(BIN)/discreet demo

test: .venv/.dev test-numpy2    ## Set up and run the tests (under 15 minutes on two cores)
	$(BIN)/pytest -m "not slow" -n 2

# What computes and what reads files; the rest is words and bytes on either numpy.
NUMPY2 := $(addprefix tests/unit/,data statistic noise estimate metrics recalibrate ranks curator result cli/test_cli.py test_pinned_releases.py test_strangers.py test_matrix.py)
NUMPY2_ALL := $(NUMPY2) $(addprefix tests/unit/,privacy plan models cli) tests/properties

test-numpy2: .venv-numpy2/.core    ## The core's numbers and command line once more on numpy 2.x
	.venv-numpy2/bin/pytest -m "not slow and not interop" -q -n 2 $(wildcard $(NUMPY2))

test-all: .venv/.dev .venv-numpy2/.core    ## Also the long sweeps, and engines that tests/engines/install.sh installed
	.venv-numpy2/bin/pytest -m "not slow and not interop" -q -n 2 $(wildcard $(NUMPY2_ALL))
	$(BIN)/pytest -n 2

check: .venv/.dev    ## Format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev    ## Format and sort in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

BENCHES := throughput in_place curves private_curves papers_curves odd_scores local message_sizes noise secagg curator coverage hard_coverage calibration calibration_coverage label_privacy label_curves exact federation waiting

test-browser: .venv/.dev    ## Install chromium and axe-core, test the report in a real browser
	tests/browser/install.sh
	$(BIN)/pytest -q tests/browser

pictures: .venv/.dev    ## Take the pictures of the documentation again
	tests/browser/install.sh
	PYTHONPATH=tests $(BIN)/python -W ignore tests/browser/screenshots.py docs/images

dist: .venv/.dev    ## Build a wheel and a source archive into dist/
	$(BIN)/python -m build --outdir dist .

docs: .venv/.dev    ## Build the documentation site into site/
	$(BIN)/mkdocs build --quiet

bench: .venv/.dev    ## Print the tables of ratios against the anchors
	for name in $(BENCHES); do echo "== $$name"; $(BIN)/python bench/$$name.py || exit 1; done

mutants: .venv/.dev    ## Break one privacy promise at a time in a copy: the tests must notice
	$(BIN)/python bench/mutants.py

PAPERS := boyd2015 cormode2023 sun2022 unal2023 xu2025 index

papers: .venv/.dev    ## Measure the papers' tables and figures again; ARGS="--stand-ins" needs no data
	failed=0; for name in $(PAPERS); do $(BIN)/python -m papers $$name $(ARGS) || failed=1; done; exit $$failed

# The build tool is locked too: an installation then fetches nothing that is not named.
LOCK := uv pip compile pyproject.toml - -q -c constraints.txt -p 3.11 --generate-hashes --no-header --no-annotate

locks: .venv/.dev    ## Write the hashes of every pinned package again; `uv` must be installed
	echo 'setuptools>=77' | $(LOCK) --extra flower --extra demo -o locked-site.txt
	echo 'setuptools>=77' | $(LOCK) --extra mpc -o locked-exact.txt

clean:           ## Remove both environments
	rm -rf .venv .venv-numpy2

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] == (3, 11) else "Python 3.11 is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

.venv/.demo: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -c constraints.txt -e '.[demo]'
	touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(BIN)/python $(PIP) -c constraints.txt -e '.[demo,flower,mpc,dev]'
	touch $@ .venv/.demo

.venv-numpy2/.core: pyproject.toml constraints-numpy2.txt
	$(PYTHON) -m venv .venv-numpy2
	.venv-numpy2/bin/python $(PIP) -c constraints-numpy2.txt -e '.[dev]'
	touch $@
