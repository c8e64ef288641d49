# One word for each intention. `make demo` and `make test` set up everything that they need.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check bench clean

demo: .venv/installed  ## set up, fetch real data, train for a few minutes, tag sentences
	$(BIN)/hanlattice data get simplechinese
	$(BIN)/hanlattice data get msra
	rm -rf runs/demo
	$(BIN)/hanlattice train configs/demo.toml --out runs/demo
	$(BIN)/hanlattice tag -m runs/demo --format inline "南京市长江大桥" "国家主席江泽民在北京会见了联合国秘书长安南。"

test: .venv/test-installed check  ## everything that must hold
	$(BIN)/python -m pytest

check: .venv/test-installed  ## style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/installed  ## correctness first, then rates as ratios in one run
	$(BIN)/python benchmarks/rates.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hanlattice needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

.venv/test-installed: .venv/installed
	$(PIP) -e '.[test]'
	touch $@
