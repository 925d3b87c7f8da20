# `make help` lists what there is to do. Everything runs inside .venv, which is made when it is missing.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# nbgrader's packages don't go together with the book's: an environment of its own, where it is asked for.
NBGRADER := .venv-nbgrader
NBGRADER_READY := $(NBGRADER)/.ready

# Small matrices: more than one thread makes them slower, and their last digits uncertain.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= $(OMP_NUM_THREADS)
export MKL_NUM_THREADS ?= $(OMP_NUM_THREADS)
export VECLIB_MAXIMUM_THREADS ?= $(OMP_NUM_THREADS)
# `python -m book.tools...` runs what is here, and nothing of the user's own.
export PYTHONNOUSERSITE := 1
export PYTHONPATH :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # the steps share .venv and _build
.PHONY: help book test test-grading notebooks assignments grade format mutate bench replicate study-gpu lock vendor binder-check pdf zip public links shots clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

book: $(READY) ## build the book; prints the page to open
	@$(PY) -m book.tools.build

test: $(READY) ## check everything (STAGES="unit lint" for some, VERBOSE=1 to see all)
	@$(PY) -m tests.stages $(if $(VERBOSE),--verbose) $(STAGES)

test-grading: $(READY) $(NBGRADER_READY) ## check assignments, their release and grading (TESTS="file ..." for some)
	@$(PY) -m tests.grading.parts $(TESTS)

notebooks: $(READY) ## execute what changed (CHAPTERS="name ..." for some, ASSIGNMENTS too, ALL=1 for all)
	@$(PY) -m book.tools.notebooks $(if $(ALL),--all) $(CHAPTERS) $(addprefix assignments/,$(ASSIGNMENTS))

NAMED = $(if $(COURSE),"$(COURSE)",$(error say which course: make $@ COURSE=folder))
assignments: $(READY) $(NBGRADER_READY) ## hand out assignments (COURSE=folder; ASSIGNMENTS="name ..." for some)
	@$(PY) -m book.tools.assignments.release $(NAMED) $(ASSIGNMENTS)

GRADE_OPTIONS = $(if $(SUBMISSIONS),--submissions "$(SUBMISSIONS)") $(if $(UNSAFE),--unsafe)
grade: $(READY) ## grade what students handed in (COURSE=folder SUBMISSIONS=folder; ASSIGNMENTS="name ...", UNSAFE=1)
	@$(PY) -m book.tools.assignments.grade --course $(NAMED) $(ASSIGNMENTS) $(GRADE_OPTIONS)

format: $(READY) ## format the code, the cells of chapters and assignments too
	@$(PY) -m book.tools.format

mutate: $(READY) ## plant known faults and see that tests and notebooks catch them (FAULTS="name ..." for some)
	@$(PY) -m tests.mutation.mutate $(FAULTS)

bench: $(READY) ## measure the library's speed against its bounds (STORE=1 renews the table that chapters quote)
	@$(PY) -m tests.bench.bench $(if $(STORE),--store)

# Finished runs lie in _build/replication until all are there: a second call goes on.
replicate: $(READY) ## train many models and store what the book draws of them (ARGS="--scheduler tcp://..." for a cluster)
	@$(PY) -m ictd_lib replicate --out book/data/replication.npz --spool _build/replication $(ARGS)

study-gpu: $(READY) ## the same with hundreds of states, on a GPU
	@$(PY) -m ictd_lib replicate --study large --seeds 5 --device cuda \
	  --out book/data/study-gpu.npz --spool _build/study-gpu $(ARGS)

lock: $(READY) ## resolve requirements.lock (from pyproject.toml) and nbgrader's lock anew
	@$(PY) -m book.tools.lock

vendor: $(READY) ## fetch the site's third-party files again (ARGS=--accept takes new checksums)
	@$(PY) -m book.tools.vendor $(ARGS)

binder-check: $(READY) ## check that Binder's environment is accepted, lean and runs every notebook
	@$(PY) -m tests.project.binder

pdf: book ## print the book as one PDF and proofread it (needs Chromium)
	@$(PY) -m book.tools.printed

zip: book ## pack the book as pages to read offline
	@$(PY) -m book.tools.offline

public: zip pdf ## lay out what is published: the site with PDF and zip
	@$(PY) -m book.tools.public

links: book ## see that the addresses that the book names are there (needs the network)
	@$(PY) -m book.tools.links

shots: book ## pictures of every page, wide and phone, light and dark, into _build/shots (PAGES="word ..." for some)
	@$(PY) tests/site/shots.py $(PAGES)

clean: ## remove what was built (the environments stay)
	rm -rf _build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The stamp is written last: an interrupted or failed installation is done again.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The book needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another with: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments (on Debian and Ubuntu: install python3-venv)." >&2; exit 1; }
	@echo "Installing the pinned packages into $(VENV) (a few minutes the first time)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@if [ -t 1 ]; then quiet=; else quiet=-q; fi; \
	  $(PY) -m pip install $$quiet --disable-pip-version-check -r requirements.lock && \
	  $(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

$(NBGRADER_READY): book/assignments/nbgrader.lock | $(READY)
	@echo "Installing nbgrader into $(NBGRADER) (a minute or two the first time)"
	@test -x $(NBGRADER)/bin/python || $(PYTHON) -m venv $(NBGRADER)
	@if [ -t 1 ]; then quiet=; else quiet=-q; fi; \
	  $(NBGRADER)/bin/python -m pip install $$quiet --disable-pip-version-check -r book/assignments/nbgrader.lock
	@touch $(NBGRADER_READY)
