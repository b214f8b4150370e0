# Two commands do everything on a fresh machine with Python 3.11, git and make:
#   make dev    a demo application, a worker and PostgreSQL, live; Ctrl-C ends it
#   make test   every check: style, types, import contracts, all tests
# and two take longer:
#   make bench     the benchmarks, with the peers
#   make torture   a cluster under faults, every fire checked
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: dev test check bench torture clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Sexton needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "installing into $(VENV) (about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } \
	  || { echo "could not make $(VENV): install Python's venv module (Debian: python3-venv)"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

# From a script, end it with SIGTERM: make hands that on, but takes SIGINT for a terminal's, which
# would have reached everybody.
dev: $(STAMP)
	@$(BIN)/sexton dev

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# With bytecode, or each of four processes compiles everything, and rewrites all assertions, again.
test: check
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder

bench: $(STAMP)
	@$(BIN)/python -m bench

# Faults for 15 minutes, or for HOURS=8; SEED=7 for the same ones again.
torture: $(STAMP)
	@$(BIN)/sexton torture \
	  --seconds $(if $(HOURS),$$($(BIN)/python -c 'print($(HOURS) * 3600)'),900) \
	  $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache
