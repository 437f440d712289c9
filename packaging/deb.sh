#!/usr/bin/env bash
# Build dist/edgemeta_VERSION_ARCHITECTURE.deb from the wheel in dist/.
# usage: packaging/deb.sh amd64|arm64 PYTHON...     example: packaging/deb.sh arm64 3.10 3.11
# Needs the Debian package debhelper. Nothing is compiled or run for the target, so any Debian can build both.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/reproducible.sh

architecture=$1
pythons=("${@:2}")
case $architecture in
  amd64) machine=x86_64 ;;
  arm64) machine=aarch64 ;;
  *) echo "deb: $architecture: expected amd64 or arm64" >&2; exit 2 ;;
esac
command -v dh >/dev/null || { echo "deb: dh is missing (Debian package debhelper)" >&2; exit 1; }

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/edgemeta/__init__.py)
wheel=$(echo dist/edgemeta-"$version"-py3-none-manylinux*_"$machine".whl)
[ -f "$wheel" ] || { echo "deb: expected one wheel, found $wheel: run packaging/wheel.sh $machine" >&2; exit 1; }

stage=build/deb/$architecture
rm -rf "$stage"
mkdir -p "$stage/docs"
cp -r packaging/debian packaging/edgemeta packaging/edgemeta.rtupdate CHANGELOG.md configs "$stage"
cp systemd/edgemeta.service "$stage/debian/edgemeta.service"
cp systemd/edgemeta.sysusers "$stage/edgemeta.conf"
cp systemd/edgemeta.environment "$stage/environment"
cp configs/default.yaml "$stage/config.yaml"
python -m tools.documents docs/{commands,configuration,home-assistant,install,metrics,mqtt,operations,systemd,web}.md --into "$stage/docs"
python packaging/manpage.py >"$stage/edgemeta.1"
# The lock includes the extra `signature`, so that signed models work without further packages.
python packaging/bundle.py "$wheel" --lock packaging/requirements.txt --machine "$machine" --pythons "${pythons[@]}" --into "$stage/bundle"

first=${pythons[0]} last=${pythons[-1]}
cd "$stage"
PYTHON_FIRST=$first PYTHON_AFTER=3.$((${last#3.} + 1)) dpkg-architecture -a"$architecture" -f -c debian/rules binary
cd - >/dev/null
mv "$stage"/edgemeta_"$version"_"$architecture".deb dist/
ls -s --block-size=M dist/edgemeta_"$version"_"$architecture".deb
