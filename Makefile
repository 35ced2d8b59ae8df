# Everything below needs Python 3.11 (or 3.10, 3.12) and the package index, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
LOCK := --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header

.PHONY: setup test lint demo docs screenshots bench dist lock clean

setup: $(VENV)/.installed

# Made anew when the list of dependencies changes.
$(VENV)/.installed: pyproject.toml release/dev.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --require-hashes -r release/dev.lock \
	  && $(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . \
	  || { echo "this index has not all of release/dev.lock: taking the versions it has"; \
	       $(BIN)/python -m pip install --quiet --editable '.[dev]'; }
	touch $@

test: setup lint
	$(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: setup
	$(BIN)/edgeseg demo

# The reference of commands and the tables, from commands and reports; a test fails when one is old.
docs: setup
	$(BIN)/python docs/cli_reference.py docs/cli.md
	$(BIN)/python -m edgeseg.bench.results.tables

# Pictures of the pages, from the running pages; needs chromium.
screenshots: setup
	$(BIN)/python -m docs.screenshots docs/pictures

bench: setup
	$(BIN)/edgeseg bench small --out bench-out

# Wheel, sdist and bill of materials, built twice and compared; and wheels of backbones' graphs.
dist: setup
	$(BIN)/python release/dist.py --out dist
	$(BIN)/python release/backbones.py --out dist

# Versions and hashes of all that is installed, for every platform; needs the package index.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	echo 'setuptools>=77' | $(BIN)/uv pip compile - $(LOCK) --output-file release/build.lock
	$(BIN)/uv pip compile pyproject.toml --extra cpu --extra openvino --extra web --extra teach --extra sign --extra mqtt --extra opcua $(LOCK) --output-file release/device.lock
	echo 'cuda-python>=12,<13' | $(BIN)/uv pip compile pyproject.toml - --extra web --extra teach --extra sign --extra mqtt --extra opcua $(LOCK) --output-file release/jetson.lock
	$(BIN)/uv pip compile pyproject.toml --extra fit $(LOCK) --output-file release/fit.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev $(LOCK) --output-file release/dev.lock
	$(BIN)/python release/licences.py

clean:
	rm -rf $(VENV) build dist *.egg-info
