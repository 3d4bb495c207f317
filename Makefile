# One command to start (make up), one to test (make test), one to check (make check). All can be run again at any time.
.DEFAULT_GOAL := help
.PHONY: help up reset venv test test-long check smoke messages screenshots bench bench-data lint format lock python clean

VENV := .venv
STAMP := $(VENV)/.stamp
BIN := $(VENV)/bin
FIND_PYTHON := sh .ci/python.sh
BENCH_VENV := .venv-bench
BENCH_STAMP := $(BENCH_VENV)/.stamp

help:
	@echo "make up         start everything on this machine; Ctrl-C stops it, another make up goes on"
	@echo "make reset      forget all data of make up"
	@echo "make test       every test at its small size        (ARGS='-k name'  SKIP=browser)"
	@echo "make test-long  every test at its full size"
	@echo "make check      format, lint, types, import rules, templates, migrations, translations, compose file"
	@echo "make screenshots  a picture of every page in test-results/screenshots (ARGS=--docs renews those of docs/images)"
	@echo "make smoke      the main job from submit to completion, headless, in a temporary folder"
	@echo "make bench      what a step, a wait and a byte cost here and at the peers (QUICK=1: within 8 minutes)"
	@echo "make bench-data fill a database as years would, and measure in it (RUNS= EVENTS= CHECKPOINTS=)"
	@echo "make messages   take the texts from code and templates into the catalogues of runs/locale, and compile them"
	@echo "make format     rewrite code and templates in the house style"
	@echo "make lock       resolve the dependencies anew into requirements.lock"

venv: $(STAMP)

# The lock pins uv too: pip installs that one package, uv the rest. A wrong hash anywhere stops the build.
$(STAMP): requirements.lock .ci/python.sh
	@python=$$($(FIND_PYTHON)) || exit 1; \
	if [ -x $(BIN)/python ] && $(BIN)/python -c '' 2>/dev/null; then :; else \
	  echo "venv: making $(VENV) with $$python"; rm -rf $(VENV); "$$python" -m venv $(VENV); fi
	@sed -n '/^uv==/,/^[^ ]/{/^uv==/p;/^ /p;}' requirements.lock > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	@echo "venv: installing the locked dependencies"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@touch $(STAMP)

up: venv
	@exec $(BIN)/python -m hitl.supervisor up

reset: venv
	@exec $(BIN)/python -m hitl.supervisor reset

test: venv
	@SKIP="$(SKIP)" $(BIN)/python -m tests.run small $(ARGS)

test-long: venv
	@SKIP="$(SKIP)" $(BIN)/python -m tests.run long $(ARGS)

screenshots: venv
	@exec $(BIN)/python -m tests.screenshots $(ARGS)

smoke: venv
	@exec $(BIN)/python -m hitl.smoke

# The peers' dependencies are nobody else's: a venv of their own, and the same pins as ours where both have a package.
$(BENCH_STAMP): bench/requirements.lock $(STAMP)
	@python=$$($(FIND_PYTHON)) || exit 1; [ -x $(BENCH_VENV)/bin/python ] || "$$python" -m venv $(BENCH_VENV)
	@echo "bench: installing the peers"
	@VIRTUAL_ENV=$(CURDIR)/$(BENCH_VENV) $(BIN)/uv pip sync --quiet --require-hashes bench/requirements.lock
	@touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)
	@exec $(BENCH_VENV)/bin/python -m bench $(if $(QUICK),--quick) $(ARGS)

RUNS := 1000000
EVENTS := 20000000
CHECKPOINTS := 10000000
bench-data: $(BENCH_STAMP)
	@exec $(BENCH_VENV)/bin/python -m bench.data --runs $(RUNS) --events $(EVENTS) --checkpoints $(CHECKPOINTS) $(ARGS)

check: venv
	@$(BIN)/python -m tests.check

lint: venv
	@$(BIN)/ruff check .

format: venv
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/python -m tests.check --write-templates

messages: venv
	@$(BIN)/python -m tests.messages

lock: venv
	@$(BIN)/uv export --upgrade --quiet --no-emit-project --all-groups --no-header --no-annotate --format requirements-txt -o requirements.lock.new
	@grep -vE '^ *(-i|--index|--extra-index|--find-links|--trusted)' requirements.lock.new > requirements.lock; rm requirements.lock.new
	@$(BIN)/uv export --quiet --no-emit-project --extra bench --no-default-groups --no-header --no-annotate --format requirements-txt -o requirements.lock.new
	@grep -vE '^ *(-i|--index|--extra-index|--find-links|--trusted)' requirements.lock.new > bench/requirements.lock; rm requirements.lock.new
	@if grep -nE '://' requirements.lock bench/requirements.lock; then echo "an address crept into a lock"; exit 1; fi
