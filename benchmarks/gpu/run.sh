#!/usr/bin/env bash
# Tests and measures the CUDA kernels on this machine's NVIDIA GPU. Needs no network. Requires the driver, a CUDA
# toolkit, Python with PyTorch, NumPy, safetensors, click, PyYAML, pytest, pytest-timeout and hypothesis, and
# benchmarks/gpu/wheels (built by `make carry` on a machine with a network). Real images: EDGEMETA_DATA
# (docs/test-data.md).
#
#   benchmarks/gpu/run.sh [options of measure.py]        PYTHON=python3, RESULTS=benchmarks/results
#
# Compiles all kernels on all cores, runs the gpu tests (every bit of 10,000 images, 200 sessions without a leak,
# compute-sanitizer), then measures both tables. A part that fails does not stop the others, and results are written
# after each; the exit code is 0 only if all succeeded.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
work=build/gpu
mkdir -p "$work" || exit

tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])') || exit
shopt -s nullglob
wheels=(benchmarks/gpu/wheels/*-py3-none-any.whl benchmarks/gpu/wheels/*-"$tag"-*.whl)
if ((${#wheels[@]})); then
  "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$work/$tag" "${wheels[@]}" \
    || exit
fi
export PYTHONPATH="$PWD/src:$PWD:$PWD/proof:$PWD/$work/$tag${PYTHONPATH:+:$PYTHONPATH}"
export EDGEMETA_CACHE="$PWD/$work/cache" EDGEMETA_FULL=1
"$python" -c 'import sys
from importlib.util import find_spec
required = "click hypothesis numpy pytest pytest_timeout safetensors yaml".split()
missing = ", ".join(name for name in required if find_spec(name) is None)
if missing: sys.exit(f"{sys.executable} lacks {missing}: install them, or select another Python with PYTHON=")
import pytest
if pytest.version_tuple < (9,): sys.exit(f"{sys.executable} has pytest {pytest.__version__}: 9 or newer is needed")' || exit
"$python" -c 'import sys; from edgemeta.plugins.cuda.backend import BACKEND; found = BACKEND.probe(); print(found.reason)
sys.exit(not found.available)' || exit

# The table's cases run side by side where pytest-xdist is installed: most of their time is opening a context.
parallel=()
"$python" -c 'import xdist' 2>/dev/null && parallel=(--numprocesses auto)

failed=0
tests=("$work/conformance.xml" "$work/tests.xml")
rm -f "${tests[@]}"
pytest=("$python" -m pytest -p no:cacheprovider -W default -m gpu)
"$python" benchmarks/gpu/compile_ahead.py || failed=1
"${pytest[@]}" "${parallel[@]}" --junitxml "${tests[0]}" -k conformance tests/plugins/cuda/test_gpu.py || failed=1
"${pytest[@]}" --junitxml "${tests[1]}" -k "not conformance" \
  tests/plugins/cuda/test_gpu.py tests/toolchain/simulate/test_fused.py || failed=1
"$python" benchmarks/gpu/simulated_choices.py --results "${RESULTS:-benchmarks/results}" || failed=1
"$python" benchmarks/gpu/measure.py --tests "${tests[@]}" --results "${RESULTS:-benchmarks/results}" "$@" || failed=1
exit "$failed"
