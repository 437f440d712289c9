# Every target sets up what it needs in .venv by itself; PYTHON chooses the interpreter it is made from.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SECONDS ?= 20
MINUTES ?= 30
DATA    ?= ../shared/data
EPOCHS  ?= 60

# Two tests at a time for a core, as many of them wait; a worker without tests takes some of another's.
WORKERS ?= $(shell expr $$(nproc) \* 2)
PYTEST  := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# Options of pytest-cov for `test` and `long`; the gate measures both as one.
COVERAGE ?=

# The suite starts hundreds of Python processes: without compiled modules each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# The Debian package: the Pythons of Ubuntu 22.04 to 26.04 and Debian 12 and 13.
PYTHONS ?= 3.10 3.11 3.12 3.13 3.14
ARCH    ?= $(shell dpkg --print-architecture)
MACHINE_amd64 := x86_64
MACHINE_arm64 := aarch64
TOOLS   := PATH="$(CURDIR)/$(BIN):$$PATH"

.DEFAULT_GOAL := help
.PHONY: help demo test long coverage check docs size bench wheel soak fuzz damaged-files slow sanitize carry gpu gpu-train outages full-disk swaps clean wheels deb deb-test release lock docker-test

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\): .*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

# The C++ library is built on installation, so its sources are prerequisites.
SOURCES := pyproject.toml proof/pyproject.toml CMakeLists.txt $(shell find kernels/cpu kernels/simulate -name '*.cpp' -o -name '*.h' -o -name CMakeLists.txt)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed-%: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet $(if $(findstring report,$*),--editable ./proof) --editable '.[$*]'
	@touch $@

# Once for all workers: in a clean checkout each of them would compile every test by itself.
$(VENV)/.compiled: $(VENV)/.installed-demo,test,cuda-compiler,report
	-find tests -name 'test_*.py' | sort | xargs --max-procs=$$(nproc) --max-args=250 \
	  $(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $@

demo: $(VENV)/.installed-demo          ## watch frames being classified, their messages arriving over MQTT; URL=clip.avi MODEL=file: yours
	$(BIN)/edgemeta demo $(if $(URL),--source $(URL)) $(if $(MODEL),--model $(MODEL)) --seconds $(SECONDS)

# The CUDA kernels are compiled and counted without a GPU: by wheels, 400 MB of them.
test: $(VENV)/.compiled   ## run the tests; EDGEMETA_FULL=1: proofs of what has not changed, too
	$(PYTEST) --leave-out-unchanged $(COVERAGE)

long: $(VENV)/.installed-demo,test,cuda-compiler,report   ## run the tests that are too long for `make test`
	$(PYTEST) -m 'gate and not slow' $(COVERAGE)

coverage: $(VENV)/.installed-demo,test,cuda-compiler,report   ## run both with coverage measured, in subprocesses, too
	$(PYTEST) -m 'not slow and not gpu' --cov --cov-report term:skip-covered

check: $(VENV)/.installed-demo,test,check   ## lint and type-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.size

docs: $(VENV)/.installed-docs   ## build the site of docs/ into build/site; a dead link or a page in no menu is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

size:            ## lines of the product by folder against the main branch, files that switch on types of operators
	$(PYTHON) -m tools.size

bench: $(VENV)/.installed-demo,test,bench   ## ratios to peers with intervals, ten minutes; writes benchmarks/results
	$(BIN)/python benchmarks/networks.py --seconds 25
	$(BIN)/python benchmarks/preprocess.py

fuzz: $(VENV)/.installed-demo,test     ## damaged configs, commands, model files, MQTT packets by the hundred thousand
	$(BIN)/python reliability/fuzz.py

damaged-files: $(VENV)/.installed-demo,test     ## damaged networks and pictures, 55,000 of them
	$(BIN)/python reliability/damaged_files.py

slow: $(VENV)/.installed-demo,test,cuda-compiler,report   ## all long tests: hours
	$(BIN)/python -m pytest -m slow

sanitize: $(VENV)/.installed-demo,test ## the C++ libraries and the CUDA kernels under sanitizers, and kernels with a barrier or bound left out
	$(BIN)/python -m pytest -m slow tests/kernels/cpu/test_sanitized.py tests/kernels/simulate/test_sanitized.py tests/emulation

soak: $(VENV)/.installed-demo,test     ## the fault suite: each part killed and restarted at random, for MINUTES=30
	$(BIN)/python reliability/soak.py --minutes $(MINUTES)

outages: $(VENV)/.installed-demo,test  ## 100 outages of the broker, 20 kills of the service: no message may be lost
	$(BIN)/python reliability/outages.py --outages 100 --kills 20

full-disk: $(VENV)/.installed-demo,test  ## a full disk for ten minutes (as root): what waits is sent, and little is logged
	$(BIN)/python reliability/full_disk.py

swaps: $(VENV)/.installed-demo,test    ## 200 swaps of models under frames, half of them failing: what they leave behind, what they cost the frames
	$(BIN)/python reliability/swaps.py

wheel: $(VENV)/bin/python              ## build the wheel for this machine and its kind into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

wheels: $(VENV)/.installed-package     ## build the wheels to publish (x86-64, aarch64, armv7; edgemeta-proof) and the source package into dist/
	$(TOOLS) packaging/wheel.sh x86_64
	$(TOOLS) packaging/wheel.sh aarch64
	$(TOOLS) packaging/wheel.sh armv7l
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist ./proof
	$(BIN)/python -m build --quiet --sdist --outdir dist .

deb: $(VENV)/.installed-package        ## build the Debian package into dist/ (ARCH=arm64, PYTHONS=3.11: others than the default)
	$(TOOLS) packaging/wheel.sh $(MACHINE_$(ARCH))
	$(TOOLS) packaging/deb.sh $(ARCH) $(PYTHONS)

deb-test: deb $(VENV)/.installed-test  ## install, run, upgrade, remove and purge the Debian package in clean roots (as root)
	$(BIN)/python -m pytest -m slow tests/packaging --deselect tests/packaging/test_docker.py

release: $(VENV)/bin/python            ## build twice what is published, compare, and write digests, bills of materials, provenance (REHEARSE=1: unnamed)
	$(BIN)/python packaging/release.py $(if $(filter wheels,$(PARTS)),,--pythons $(PYTHONS)) $(if $(REHEARSE),--rehearse)

lock: $(VENV)/.installed-package       ## renew the locks of what is packaged: versions and digests of libraries
	$(TOOLS) $(BIN)/python packaging/lock.py

docker-test: $(VENV)/.installed-test   ## build and run the Docker image, where a Docker daemon runs
	$(BIN)/python -m pytest -m slow tests/packaging/test_docker.py

carry: PYTHON := python3.12
carry:           ## make benchmarks/gpu/wheels: PyCUDA for a GPU machine without a network (PYTHON=its version)
	benchmarks/gpu/pycuda_wheel.sh $(PYTHON) benchmarks/gpu/wheels

gpu:             ## on a machine with an NVIDIA GPU: prove the CUDA kernels there, measure them beside PyTorch
	benchmarks/gpu/run.sh

gpu-train: $(VENV)/.installed-train,import   ## on a machine with an NVIDIA GPU: train a detector there (DATA=test data EPOCHS=60)
	mkdir -p build/detector
	$(BIN)/edgemeta import $(DATA)/networks/yolox_nano.onnx --out build/detector/yolox_nano.safetensors
	$(BIN)/edgemeta train --task detection --device cuda --epochs $(EPOCHS) --without pennfudan \
	  --data $(DATA)/detection/train.npz --held-out $(DATA)/detection/validation.npz \
	  --test $(DATA)/detection/test.npz --unlabelled $(DATA)/clothing/train \
	  --teacher build/detector/yolox_nano.safetensors --name people-vehicles-animals \
	  --folder build/detector/run --out build/detector/people-vehicles-animals-float.safetensors

clean:           ## remove what the targets made
	rm -rf $(VENV) build dist
