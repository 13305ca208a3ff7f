# Two commands for a newcomer: `make demo` and `make test`. Both set up `.venv` themselves.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

PYTEST := LANGGRAPH_STRICT_MSGPACK=true PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format studio docs bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "egg-graph needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing egg-graph into $(VENV) (torch and triton are large: the first time takes minutes)"
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.run  ## optimize examples/softmax.py with the embedded expert: no key, no GPU needed
	$(BIN)/egg-graph optimize examples/softmax.py

test: $(VENV)/.dev  ## run the tests: of large matrices of cases, a sample
	$(PYTEST)

test-all: $(VENV)/.dev  ## the same with every case of every matrix and the whole corpora, which takes long
	$(PYTEST) -m ""

lint: $(VENV)/.dev  ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

studio: $(VENV)/.dev  ## serve the graphs to LangGraph Studio, ten runs at once
	LANGGRAPH_CLI_NO_ANALYTICS=1 $(BIN)/langgraph dev --no-browser --n-jobs-per-worker 10

docs: $(VENV)/.dev  ## redraw the graph in docs/graph.md and README.md, and build the site into site/
	$(BIN)/python -m egg_graph.drawing > docs/graph.md
	$(BIN)/python -m egg_graph.expert.playbooks.page > docs/playbooks.md
	$(BIN)/python -m egg_graph.evaluator.evidence.tables docs/evaluator/findings.md
	$(BIN)/python -m tests.lab.briefs > docs/briefs.md
	$(BIN)/egg-graph graph --write README.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(VENV)/.dev  ## what the library itself costs -> docs/results/overhead.json, weight.json, brief_building.json, briefs_no_gpu.json
	$(BIN)/python -m pytest tests/bench/test_overhead.py --benchmark-only --benchmark-min-rounds=5 --benchmark-json=docs/results/overhead.json
	$(BIN)/python -m pytest tests/bench/test_briefs.py --benchmark-only --benchmark-json=docs/results/brief_building.json
	$(BIN)/python -m tests.bench.weight docs/results/weight.json
	$(BIN)/python -m tests.lab briefs --out docs/results/briefs_no_gpu

clean:  ## remove what the targets above made
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .langgraph_api
