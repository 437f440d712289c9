"""Unpack edgemeta's wheel and its dependencies into a folder, for several Pythons.

    packages/     what every Python can load: pure wheels, and those for the stable ABI
    python3.11/   what Python 3.11 alone can load: NumPy, pydantic-core, ...
    WHEELS        every wheel in it, with its SHA-256

Nothing is run on the target, so the machine that bundles need not be of the target's kind. Used by packaging/deb.sh.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

GLIBC = 35
"""The bundle runs with glibc 2.35 (Ubuntu 22.04) or newer: see debian/control."""

OLDEST_GLIBC = 17
"""The oldest glibc in wheel tags, 2.17."""


class BundleError(Exception):
    """The bundle cannot be built; one sentence."""


def target(python: str, machine: str) -> list[str]:
    """Return pip's options for wheels of that Python ("3.11") and machine ("aarch64"), independent of this machine."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, OLDEST_GLIBC - 1, -1)]
    platforms = [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{machine}")]
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *platforms]


def pip(arguments: Iterable[str]) -> None:
    """Run pip. Raises BundleError with pip's last message."""
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        reason = done.stdout.strip().rpartition("\n")[2].removeprefix("ERROR: ")
        raise BundleError(f"pip {command[3]} failed: {reason}")


def download(requirement: str, python: str, machine: str, folder: Path) -> set[Path]:
    """Download the wheels of a requirement and its dependencies into a folder; return them."""
    pip(["download", "--dest", str(folder), *target(python, machine), requirement])
    return set(folder.glob("*.whl"))


def split(wheels: dict[str, set[Path]]) -> tuple[set[Path], dict[str, set[Path]]]:
    """Separate the wheels with the same file name for all Pythons from those of one Python."""
    shared = set.intersection(*({path.name for path in paths} for paths in wheels.values()))
    first = next(iter(wheels.values()))
    own = {python: {path for path in paths if path.name not in shared} for python, paths in wheels.items()}
    return {path for path in first if path.name in shared}, own


def unpack(wheels: set[Path], python: str, machine: str, into: Path) -> None:
    """Install wheels into a folder, without commands and without compiled Python files."""
    into.mkdir(parents=True)
    if not wheels:
        return
    # By name, from their own folders: pip notes the path of a wheel that is given by path. Whether a wheel is for that
    # Python was asked when it was downloaded; here pip would ask it of the Python that runs.
    folders = sorted({str(path.parent) for path in wheels})
    names = ["==".join(path.name.split("-")[:2]) for path in sorted(wheels)]
    offline = ["--no-index", "--no-deps", "--ignore-requires-python", *(f"--find-links={folder}" for folder in folders)]
    pip(["install", "--no-compile", f"--target={into}", *offline, *target(python, machine), *names])
    shutil.rmtree(into / "bin", ignore_errors=True)
    for compiled in list(into.rglob("__pycache__")):  # some wheels bring them; they are the target's to make and remove
        shutil.rmtree(compiled)


def share_equal_files(folder: Path) -> None:
    """Replace identical files by hard links: the Pythons' NumPys are similar."""
    known: dict[tuple[str, int], Path] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        key = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode
        if (first := known.setdefault(key, path)) != path:
            path.unlink()
            os.link(first, path)


def bundle(requirement: str, pythons: list[str], machine: str, into: Path) -> None:
    """Create the folder `into`, replacing an old one. Raises BundleError."""
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = {python: download(requirement, python, machine, Path(scratch, python)) for python in pythons}
        shared, own = split(wheels)
        unpack(shared, pythons[0], machine, into / "packages")
        for python in pythons:
            unpack(own[python], python, machine, into / f"python{python}")
        everything = {path.name: path for paths in wheels.values() for path in paths}
        lines = [f"{hashlib.sha256(everything[name].read_bytes()).hexdigest()}  {name}" for name in sorted(everything)]
    share_equal_files(into)
    (into / "WHEELS").write_text("\n".join(lines) + "\n")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirement", help="the wheel's path, with extras if wanted: dist/edgemeta-….whl[extra]")
    parser.add_argument("--machine", required=True, choices=["x86_64", "aarch64"])
    parser.add_argument("--pythons", required=True, nargs="+", metavar="3.X")
    parser.add_argument("--into", required=True, type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        bundle(arguments.requirement, arguments.pythons, arguments.machine, arguments.into)
    except BundleError as error:
        sys.exit(f"bundle: {error}")


if __name__ == "__main__":
    main()
