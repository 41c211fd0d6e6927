# make demo and make test are all a newcomer needs; they build their own environment in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than the two cores that are counted on: many tests wait for programs that they started.
JOBS ?= 3
# Their files lie in memory where there is room: a third of the lane's time would else be the disk's. The slow lane
# stays on the disk.
MEMORY := $(shell test -w /dev/shm && test "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4000000 && echo /dev/shm)
# The tests start hundreds of programs: each would compile all that it imports, were compiled modules not kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test slow soak lint types unit laws bench bench-science bench-immune fix schemas docs agent-packages site clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/perpetual demo perpetual-demo

test: lint types laws unit

lint: $(VENV)/.installed
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python -m pytest -q --no-header tests/docs/test_words.py

types: $(VENV)/.installed
	$(BIN)/mypy

laws: $(VENV)/.installed
	$(BIN)/lint-imports --config .importlinter

unit: $(VENV)/.installed
	$(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

slow: $(VENV)/.installed
	$(BIN)/python -m pytest -q -m "slow and not soak" -n 2 --dist worksteal --timeout 900

soak: $(VENV)/.installed
	$(BIN)/python -m pytest -q -m soak -n 2 --dist worksteal --timeout 1800
	$(BIN)/python tools/soak.py

bench: $(VENV)/.installed
	$(BIN)/python tools/bench.py --large
	$(BIN)/python tools/bench_proposals.py
	$(BIN)/python tools/bench_store.py
	$(BIN)/python tools/bench_memory.py
	$(BIN)/python tools/bench_runs.py
	$(BIN)/python tools/bench_loop.py
	$(BIN)/python tools/bench_report.py
	$(BIN)/python tools/bench_mcp.py
	$(BIN)/python tools/bench_daemon.py
	$(BIN)/python tools/bench_dispatch.py
	$(BIN)/python tools/bench_agents.py
	$(BIN)/python tools/bench_science.py

# The evidence rule in every world that attacks it; CELLS="D5 power-*" for some of them, NULLS=200 for a quick look.
NULLS ?= 2000
bench-science: $(VENV)/.installed
	$(BIN)/python -m perpetual_scorers.cells --nulls $(NULLS) $(CELLS)

# The memory scanner on public attack sets; DATA=path for other records than ../shared/immune/dev.jsonl.xz.
bench-immune: $(VENV)/.installed
	$(BIN)/python tools/bench_immune.py $(if $(DATA),--data $(DATA))

schemas: $(VENV)/.installed
	$(BIN)/python tools/make_schemas.py

docs: $(VENV)/.installed
	$(BIN)/python tools/make_docs.py

# What coding agents install by one line, built from the templates of `perpetual init`.
agent-packages: $(VENV)/.installed
	$(BIN)/python tools/make_agent_packages.py

site: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict -f docs/site/mkdocs.yml

fix: $(VENV)/.installed
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format --quiet .

clean:
	rm -rf $(VENV) dist build perpetual-demo .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
