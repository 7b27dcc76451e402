# kvtop: everything a new clone needs. `make demo` to see it, `make test` to prove it.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup model demo test check docs generated screenshots perf overnight soak slow clean

setup: $(VENV)/.ready

# torch goes first and pinned: left to a resolver it brings several gigabytes of CUDA.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kvtop needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "pip==25.3"
	$(BIN)/pip install --quiet -c constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet -c constraints.txt -e ".[engine,dev]"
	touch $@

model: setup  ## the demo's model, about 93 MB, once
	$(BIN)/python -m engine.model.fetch

demo: setup  ## engine, workload and screen; q ends all of it
	$(BIN)/kvtop demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m kvtop.protocol.document --check
	$(BIN)/python -m kvtop.app.manual --check
	$(BIN)/python -m kvtop.alarms.document --check
	$(BIN)/python -m engine.http.metrics.document --check
	$(BIN)/python -m kvtop.bench.document --check
	$(BIN)/python -m kvtop.settings.document --check
	$(BIN)/python -m kvtop.man --check

# Each test on whichever worker is free: none may need a place, a name or a port that another could have. One worker more
# than cores: the tests that start processes mostly wait.
WORKERS ?= $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")

test: setup model check
	$(BIN)/pytest -m "not slow" -n $(WORKERS) --dist worksteal

slow: setup model  ## what takes minutes: golden outputs under all policies, long runs of the state machines
	$(BIN)/pytest -m slow

docs: setup
	$(BIN)/python -m kvtop.protocol.document
	$(BIN)/python -m kvtop.app.manual
	$(BIN)/python -m kvtop.alarms.document
	$(BIN)/python -m engine.http.metrics.document
	$(BIN)/python -m kvtop.bench.document
	$(BIN)/python -m kvtop.settings.document
	$(BIN)/python -m kvtop.man

generated: docs  ## all that is made from the code and committed: pages, and what the screen's tests look at
	$(BIN)/python -m tests.record
	$(BIN)/python -m tests.record --screens

screenshots: setup
	$(BIN)/python -m tests.screenshots

# Each says in its --help what it measures, and its bounds.
perf: setup model
	$(BIN)/python -m tests.perf.render
	$(BIN)/python -m tests.perf.scale
	$(BIN)/python -m tests.perf.overhead
	$(BIN)/python -m tests.perf.startup
	$(BIN)/python -m tests.perf.memory --step 40
	$(BIN)/python -m tests.perf.sampling
	$(BIN)/python -m tests.perf.engine_turn
	$(BIN)/python -m tests.perf.recording
	$(BIN)/python -m tests.perf.rest
	$(BIN)/python -m tests.perf.http_cost
	$(BIN)/python -m tests.perf.kv_error

overnight: setup  ## every state of the screen, for an hour
	$(BIN)/python -m tests.perf.overnight

soak: setup  ## an engine under everything at once, for an hour: nothing may be left at the end
	$(BIN)/python -m tests.perf.soak

clean:
	rm -rf $(VENV) build *.egg-info
