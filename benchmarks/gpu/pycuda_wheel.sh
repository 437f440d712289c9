#!/usr/bin/env bash
# Builds a wheel of PyCUDA for a Python, on a machine without a GPU, driver or CUDA toolkit, and writes it and those of
# its dependencies to a folder. PyCUDA is distributed as source only, and its setup links with the driver.
#
#   benchmarks/gpu/pycuda_wheel.sh PYTHON FOLDER
#
# Requires g++ and PYTHON's headers and takes about 70 s; does nothing if the folder already has the wheel. The wheel is
# bound to PYTHON's minor version and this machine's processor, and loads libcuda.so.1 of the machine that it runs on.
set -euo pipefail
python=$(command -v "$1")
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
mkdir -p "$2"
folder=$(cd "$2" && pwd)
version=2026.1
tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
if compgen -G "$folder/pycuda-$version-$tag-*.whl" >/dev/null; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$python" -m venv made
pip="$work/made/bin/python -m pip --disable-pip-version-check --quiet"
$pip install setuptools wheel 'numpy>=2' nvidia-cuda-runtime-cu12==12.9.79 nvidia-cuda-profiler-api-cu12==12.9.79
$pip download --no-deps --no-build-isolation --no-binary pycuda "pycuda==$version"
tar xzf "pycuda-$version.tar.gz"

# An empty library with the driver's name to link with: a shared object may have undefined symbols, and the driver of the
# machine that it is loaded on defines them.
mkdir driver
g++ -shared -fPIC -Wl,-soname,libcuda.so.1 -o driver/libcuda.so -x c++ /dev/null
cat >"pycuda-$version/siteconf.py" <<SETTINGS
USE_SHIPPED_BOOST = True
CUDA_ENABLE_CURAND = False
CUDA_ENABLE_GL = False
CUDADRV_LIB_DIR = ["$work/driver"]
CUDADRV_LIBNAME = ["cuda"]
SETTINGS
headers=$(find "$work/made" -type d -path '*nvidia/*/include' | paste -sd:)
CPATH=$headers CFLAGS=-g0 LDFLAGS='-Wl,--no-as-needed -s' \
  $pip wheel --no-deps --no-build-isolation --wheel-dir built "./pycuda-$version"
$pip download --only-binary :all: --no-deps --dest built mako markupsafe platformdirs pytools siphash24 typing-extensions
mv built/*.whl "$folder"
