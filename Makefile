# `make demo` and `make test` set up everything they need in .venv; `make help` lists the rest.
PYTHON ?= python3
PY := .venv/bin/python
INSTALL := $(PY) -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt
SPARK := .venv-spark/bin/python
SECONDS ?= 600
SEED ?= 0
KAFKA ?= 4.4.0
BROKERS ?= 1
PORT ?= 9092
DELETE ?=
SEGMENTS ?=
LANES ?=
SETS ?=
SEVERAL ?=
FORMAT ?= json
# Tests side by side, the long ones first and the others as places become free. More than there are
# cores: the tests with a broker wait most of the time.
JOBS ?= 4
COMPILED := $(shell find stream_can -name '*.py[x]' -o -name '*.px[di]' -o -name '*.h')
# Packages are installed without bytecode: the first import writes it, also where an environment forbids
# that. Without it every process that a test starts would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test release-check fast format lint docs bench broker broker-stop chaos kafka-demo test-spark spark-demo clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/ready  ## the virtual environment with the package, compiled

# The compiler works while pip, which takes longer, fetches what the tests need.
.venv/ready: pyproject.toml setup.py constraints.txt $(COMPILED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stream_can needs Python 3.11 or newer; make PYTHON=python3.x")'
	test -x $(PY) || $(PYTHON) -m venv .venv
	$(INSTALL) pip setuptools cython
	@echo "compiling, and installing what the tests need: some minutes"
	@CFLAGS="$$CFLAGS -Werror=incompatible-pointer-types" $(PY) setup.py -q build_ext --inplace & compiling=$$!; \
	    $(INSTALL) --group dev && wait $$compiling
	PYTHONWARNINGS=ignore:Editable $(INSTALL) --no-build-isolation -e '.[all]'
	touch $@

# Spark is 450 MB and wants another pandas, so it lives in an environment of its own. The package, as .venv has compiled
# it, is on its path; what it needs is read from pyproject.toml.
.venv-spark/ready: .venv/ready constraints-spark.txt
	test -x $(SPARK) || $(PYTHON) -m venv .venv-spark
	grep -vE '^(pandas|protobuf)==' constraints.txt | cat - constraints-spark.txt > .venv-spark/constraints.txt
	$(SPARK) -m pip install -q -c .venv-spark/constraints.txt pip
	$(SPARK) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *(d for e in ("cli", "kafka", "report", "spark") for d in p["optional-dependencies"][e]), sep="\n")' > .venv-spark/needed.txt
	$(SPARK) -m pip install -q --no-compile -c .venv-spark/constraints.txt --group spark -r .venv-spark/needed.txt
	$(SPARK) -c 'import sysconfig, pathlib; pathlib.Path(sysconfig.get_path("purelib"), "stream_can.pth").write_text("$(CURDIR)")'
	touch $@

demo: setup  ## correct ten months of real flights, without Kafka; writes out/flights.html
	$(PY) examples/flights.py

test: setup  ## every test, those against a real Kafka broker included
	$(PY) -m pytest -m "not release" -n $(JOBS) --dist load --maxschedchunk 2

release-check:  ## what only a release can break: other Pythons, the sdist, a sanitizer, the other Kafka version, long runs
	.ci/release-check

fast: setup docs  ## the documentation, and the tests that need neither Kafka nor a browser
	$(PY) -m pytest -m "fast and not release" -n auto --dist worksteal

format: .venv/ready-lint  ## put the code into the form that lint asks for
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

lint: .venv/ready-lint  ## style, types and spelling
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	PATH=$$PWD/.venv/bin:$$PATH cython-lint --max-line-length 100 stream_can
	$(PY) -m codespell_lib .

docs: .venv/ready-docs  ## the documentation site: out/site/index.html
	$(PY) -m sphinx -q -W --keep-going -E -b html docs out/site
	@echo "read it: out/site/index.html"

.venv/ready-%: .venv/ready
	$(INSTALL) --group $*
	touch $@

bench: setup  ## what is measured in benchmarks/RESULTS.md, without Kafka
	$(PY) benchmarks/kernel.py
	$(PY) benchmarks/replay.py
	$(PY) benchmarks/pipe.py

broker: setup  ## start a Kafka broker on this machine: make broker PORT=9092 KAFKA=4.4.0
	$(PY) -m tests.kafka.broker.broker start --version $(KAFKA) --port $(PORT)

broker-stop: setup  ## stop it and keep its topics; make broker-stop DELETE=1 deletes them
	$(PY) -m tests.kafka.broker.broker stop $(if $(DELETE),--delete)

chaos: setup  ## the long failure test: make chaos SECONDS=600 SEED=1 KAFKA=3.9.1 BROKERS=3 SEGMENTS=1 LANES=1 SETS=1 SEVERAL=1 LOGITS=1 PRIOR=1 FORMAT=avro
	$(PY) -m tests.kafka.chaos --seconds $(SECONDS) --seed $(SEED) --version $(KAFKA) --brokers $(BROKERS) $(if $(SEGMENTS),--segments) $(if $(LANES),--lanes) $(if $(SETS),--sets) $(if $(SEVERAL),--several) $(if $(LOGITS),--logits) $(if $(PRIOR),--prior) $(if $(filter avro,$(FORMAT)),--avro)

kafka-demo: setup  ## the flights through a broker and two workers, one of which is killed: make kafka-demo FORMAT=avro
	$(PY) examples/kafka_demo.py --format $(FORMAT)

test-spark: .venv-spark/ready  ## the tests that need Spark, and Java 17
	$(SPARK) -m pytest tests/spark

spark-demo: .venv-spark/ready  ## the flights through Spark, killed once; needs Java 17
	$(SPARK) examples/spark_flights.py

clean:  ## remove what was built
	rm -rf .venv .venv-spark build dist out *.egg-info
	find stream_can -name '*.so' -o -name '*.c' -o -name '*.cpp' | xargs rm -f
