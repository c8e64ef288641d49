# One word for each intention. `make demo` and `make test` set up everything that they need.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Of ten thousand installed modules few are imported: those are compiled then, and kept (an empty value is no prohibition).
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo train-demo test test-ray check style sanitize fuzz hostile soak kills mutants sbom audit coverage bench docs wheels clean

SENTENCES := "南京市长江大桥" "国家主席江泽民在北京会见了联合国秘书长安南。"

demo: .venv/installed  ## set up, tag sentences with the models of the package, draw the lattice
	$(BIN)/hanlattice tag --format inline $(SENTENCES)
	$(BIN)/hanlattice segment $(SENTENCES)
	$(BIN)/hanlattice explain --format html --out runs/lattice.html $(SENTENCES)
	$(BIN)/hanlattice explain "南京市长江大桥"
	@echo "the same as a page: runs/lattice.html"

train-demo: .venv/train-installed  ## fetch real data, train for a few minutes, tag the same sentences
	$(BIN)/hanlattice data get simplechinese
	$(BIN)/hanlattice data get msra
	rm -rf runs/demo
	$(BIN)/hanlattice train configs/demo.toml --out runs/demo
	$(BIN)/hanlattice tag -m runs/demo --format inline $(SENTENCES)

test: .venv/test-installed style  ## everything that must hold; types are checked beside the tests
	$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder; tests=$$?; wait $$types && exit $$tests

check: .venv/test-installed style  ## style and types
	$(BIN)/mypy

style: .venv/test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

test-ray: .venv/test-installed  ## the tests on a Ray cluster of this machine, which `make test` leaves out: Ray takes half a gigabyte
	$(PIP) -e '.[ray]'
	$(BIN)/python -m pytest tests/test_ray.py

sanitize: .venv/test-installed  ## the C code with AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer, all instruction sets
	$(BIN)/python -m pytest -m 'slow or not slow' tests/ops/test_sanitizers.py

SECONDS ?= 60
fuzz: .venv/test-installed  ## every backend against the reference, every door against the library, for so many SECONDS
	PYTHONPATH=src $(BIN)/python -m tests.stress.fuzz $(SECONDS)

hostile: .venv/test-installed  ## signed model folders with changed arrays, for so many SECONDS: refused, or read as before
	PYTHONPATH=src $(BIN)/python -m tests.checkpoint.test_hostile_shapes $(SECONDS)

soak: .venv/test-installed  ## models shared by 16 threads, an event loop and processes, while words come and go, for so many SECONDS
	PYTHONPATH=src $(BIN)/python -m tests.stress.soak $(SECONDS)

N ?= 500
kills: .venv/test-installed  ## N times kill -9 at random moments, of training, packing, pre-training, corpora, servers; all goes on
	PYTHONPATH=src $(BIN)/python -m tests.stress.kills $(N)

SHARE ?= 0.06
mutants: .venv/test-installed .venv/audit-installed  ## do the tests notice changes in text, ops, evaluation and decoding, at a SHARE of the places?
	PYTHONPATH=src $(BIN)/python -m tests.stress.mutants $(SHARE) 1

sbom: .venv/audit-installed  ## what is installed in .venv, as CycloneDX, into build/sbom.json
	mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(BIN)/python

audit: .venv/audit-installed  ## known vulnerabilities of what is installed in .venv; what cannot be looked up is a failure, too
	mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable > build/frozen.txt
	$(BIN)/pip-audit -r build/frozen.txt --no-deps --disable-pip --strict

coverage: .venv/test-installed .venv/audit-installed  ## the branches that the tests take, by file
	PYTHONPATH=src $(BIN)/coverage run --branch --source src/hanlattice -m pytest -n 0
	$(BIN)/coverage report --skip-covered --sort cover

bench: .venv/train-installed .venv/plot-installed  ## correctness first, then rates as ratios in one run
	$(BIN)/hanlattice bench --out benchmarks/results/bench-cpu.json --plot benchmarks/results/bench-cpu.svg

docs: .venv/docs-installed  ## the documentation as a site in site/, which needs no network to be read
	$(BIN)/python docs/cli.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

wheels: .venv/wheels-installed  ## the sources, and wheels for Linux, macOS and Windows, checked, into dist/
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

# The C library is compiled while pip installs what the package needs, and only if it changed; then pip finds it up to date.
# Without a compiler the package does without it.
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
