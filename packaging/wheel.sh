#!/usr/bin/env bash
# Build the wheel for x86_64, aarch64 or armv7l into dist/, with the tag of the oldest supported Linux.
# usage: packaging/wheel.sh MACHINE     Needs the extra `package` on PATH, and a cross compiler for another machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/reproducible.sh

machine=$1
if [ "$machine" != "$(uname -m)" ]; then
  toolchain=packaging/${machine%l}.cmake
  [ -f "$toolchain" ] || { echo "wheel: no $toolchain: a wheel for $machine is built on such a machine only" >&2; exit 1; }
  compiler=$(sed -n 's/^set(CMAKE_CXX_COMPILER \(.*\))/\1/p' "$toolchain")
  command -v "$compiler" >/dev/null || { echo "wheel: $compiler is missing (Debian package g++-${compiler%-g++})" >&2; exit 1; }
  export CMAKE_TOOLCHAIN_FILE=$PWD/$toolchain _PYTHON_HOST_PLATFORM=linux-$machine
fi

plain=build/wheel/$machine
rm -rf "$plain"
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$plain" .
# auditwheel bundles nothing, as the library needs only glibc and libstdc++; it sets the tag of the required glibc.
auditwheel repair --wheel-dir dist "$plain"/*.whl 2>&1 | grep -E 'Fixed-up|rror' || { echo "wheel: auditwheel refused $plain" >&2; exit 1; }
