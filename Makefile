# `make help` lists the targets. `make demo` and `make test` set up everything that they need.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# pip does not compile the ten thousand modules that it installs; Python compiles and keeps those
# that are imported. An empty value allows that.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo train-demo test quick test-numpy test-ray check style sanitize fuzz hostile soak \
	kills mutants sbom audit coverage bench docs wheels clean

SENTENCES := "南京市长江大桥" "国家主席江泽民在北京会见了联合国秘书长安南。"

demo: .venv/installed  ## set up, tag sentences with the models of the package, draw the lattice
	$(BIN)/hanlattice tag --format inline $(SENTENCES)
	$(BIN)/hanlattice segment $(SENTENCES)
	$(BIN)/hanlattice explain --format html --out runs/lattice.html $(SENTENCES)
	$(BIN)/hanlattice explain "南京市长江大桥"
	@echo "the same as a page: runs/lattice.html"

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train-demo: .venv/train-installed  ## fetch real data, train for a few minutes, tag the same sentences
	$(BIN)/hanlattice data get simplechinese
	$(BIN)/hanlattice data get msra
	rm -rf runs/demo
	$(BIN)/hanlattice train configs/demo.toml --out runs/demo
	$(BIN)/hanlattice tag -m runs/demo --format inline $(SENTENCES)

test: .venv/test-installed style  ## style, types and every test, also without the C library
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder; \
		tests=$$?; wait $$types && exit $$tests
	$(RUN_NUMPY)

EMPTY :=
SPACE := $(EMPTY) $(EMPTY)

# The rooms below server, training and cli, and the files at the top that start no process. Of these
# rooms only the files that take longest are left out.
QUICK_ROOMS := text data features evaluation explain inference nn ops
QUICK_FILES := config config_files configs docs document encodings files imports optional output predict
LONG := inference/test_both_ways nn/test_char_features nn/test_pools nn/test_tagger \
	nn/test_transformer nn/test_word_lstm ops/test_allocations ops/test_crf_fused ops/test_gpu \
	ops/test_lattice_lstm_fused ops/test_native ops/test_sanitizers ops/test_threads
QUICK := $(QUICK_ROOMS:%=tests/%) $(QUICK_FILES:%=tests/test_%.py) $(LONG:%=--ignore=tests/%.py)

quick: .venv/test-installed  ## the tests without browser, server and training, in 90 s on two cores
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 --dist loadfile $(QUICK)

# Files that together run every NumPy fallback, without the tests that start threads or processes,
# or compute with torch. `make test` runs them a second time with the C library off: 40 s of CPU.
NUMPY := explain/test_changes inference/test_best_spans inference/test_both_ways \
	inference/test_dictionary_crf inference/test_span_search ops/test_crf_arcs ops/test_packing \
	text/test_growing text/test_trie test_labelled_words
NOT_NUMPY := [torch] modules torch_alone without_torch needs same_vectors otherwise packed_model
RUN_NUMPY = HANLATTICE_NATIVE=0 HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 0 \
	-k "not ($(subst $(SPACE), or ,$(NOT_NUMPY)))" $(NUMPY:%=tests/%.py)

test-numpy: .venv/test-installed  ## the tests of the NumPy fallbacks, with the C library off
	$(RUN_NUMPY)

check: .venv/test-installed style  ## style and types
	$(BIN)/mypy

style: .venv/test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

test-ray: .venv/test-installed  ## the tests on a Ray cluster of this machine; Ray takes half a gigabyte
	$(PIP) -e '.[ray]'
	$(BIN)/python -m pytest tests/test_ray.py

sanitize: .venv/test-installed  ## the C code under the address, undefined-behaviour and thread sanitizers
	$(BIN)/python -m pytest -m 'slow or not slow' tests/ops/test_sanitizers.py

# How long `fuzz`, `hostile` and `soak` run.
SECONDS ?= 60
fuzz: .venv/test-installed  ## random cases: backends against the reference, interfaces against the library
	PYTHONPATH=src $(BIN)/python -m tests.stress.fuzz $(SECONDS)

hostile: .venv/test-installed  ## model folders with changed arrays: refused, or read as before
	PYTHONPATH=src $(BIN)/python -m tests.checkpoint.test_hostile_shapes $(SECONDS)

soak: .venv/test-installed  ## models shared by threads, an event loop and processes while words change
	PYTHONPATH=src $(BIN)/python -m tests.stress.soak $(SECONDS)

N ?= 500
kills: .venv/test-installed  ## kill -9 at N random moments of every long command; each run resumes
	PYTHONPATH=src $(BIN)/python -m tests.stress.kills $(N)

SHARE ?= 0.06
mutants: .venv/test-installed .venv/audit-installed  ## change the code at a SHARE of its places: do the tests notice?
	PYTHONPATH=src $(BIN)/python -m tests.stress.mutants $(SHARE) 1

sbom: .venv/audit-installed  ## list what is installed in .venv as CycloneDX: build/sbom.json
	mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(BIN)/python

audit: .venv/audit-installed  ## known vulnerabilities of what is installed in .venv
	mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable > build/frozen.txt
	$(BIN)/pip-audit -r build/frozen.txt --no-deps --disable-pip --strict

coverage: .venv/test-installed .venv/audit-installed  ## the branches that the tests take, by file
	PYTHONPATH=src $(BIN)/coverage run --branch --source src/hanlattice -m pytest -n 0
	$(BIN)/coverage report --skip-covered --sort cover

bench: .venv/train-installed .venv/plot-installed  ## compare all backends with the reference, then time them
	$(BIN)/hanlattice bench --out benchmarks/results/bench-cpu.json --plot benchmarks/results/bench-cpu.svg

docs: .venv/docs-installed  ## the documentation as a site in site/, readable without a network
	$(BIN)/python docs/cli.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

wheels: .venv/wheels-installed  ## sources, and wheels for Linux, macOS and Windows, into dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -t sdist -d dist
	$(BIN)/python hatch_build.py --wheels dist
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f src/hanlattice/ops/libhanlattice.* src/hanlattice/ops/.libhanlattice.*  # the C library, and what a killed build left

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hanlattice needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

# The C library is a part of the package, so its sources count as well.
SOURCES := hatch_build.py $(wildcard src/hanlattice/ops/*.[ch] src/hanlattice/ops/*/*.[ch])

# The C library is compiled while pip installs what the package needs, and only if it changed; then
# pip finds it up to date. Without a compiler the package works without it.
REQUIREMENTS = import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*p["dependencies"], *p["optional-dependencies"].get("$(1)", ()), sep="\n")
define install
@$(BIN)/python -c '$(REQUIREMENTS)' > .venv/requirements.txt
@echo "installing what hanlattice$(if $(1),[$(1)]) needs …"
@$(BIN)/python hatch_build.py --if-changed & $(PIP) -r .venv/requirements.txt && wait
@$(PIP) -e '.$(if $(1),[$(1)])'
@touch $@
endef

.venv/installed: .venv/bin/python pyproject.toml constraints.txt $(SOURCES)
	$(call install)

.venv/train-installed: .venv/installed
	$(call install,train)

.venv/plot-installed: .venv/installed
	$(call install,plot)

.venv/docs-installed: .venv/installed
	$(call install,docs)

.venv/audit-installed: .venv/installed
	$(call install,audit)

.venv/wheels-installed: .venv/installed
	$(call install,wheels)

.venv/test-installed: .venv/bin/python pyproject.toml constraints.txt $(SOURCES)
	$(call install,test)
	@touch .venv/installed $@
