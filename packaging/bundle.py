"""Unpack edgemeta's wheel and what its lock names into a folder, for several Pythons.

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
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

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


def needed(lock: str, python: str, machine: str) -> Iterator[str]:
    """Yield the requirements of a lock that hold for that Python and machine, with their digests, without markers.

    pip would ask the markers of the Python that runs it.
    """
    holds = {"python_version": python, "python_full_version": f"{python}.0", "platform_machine": machine}
    holds |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    for entry in lock.replace("\\\n", " ").splitlines():
        named, *digests = entry.split("--hash=")
        requirement = Requirement(named)
        if requirement.marker is None or requirement.marker.evaluate(holds):
            yield " --hash=".join([f"{requirement.name}{requirement.specifier}", *map(str.strip, digests)])


def download(wheel: Path, lock: str, python: str, machine: str, folder: Path) -> set[Path]:
    """Collect a wheel and those that a lock names in a folder, each proved by its digest; return them."""
    folder.mkdir()
    own = f"{wheel.resolve().as_uri()} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    wanted = folder / "requirements.txt"
    wanted.write_text("\n".join([own, *needed(lock, python, machine)]))
    options = ["--require-hashes", "--no-deps", f"--dest={folder}", *target(python, machine)]
    pip(["download", *options, f"--requirement={wanted}"])
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


def bundle(wheel: Path, lock: str, pythons: list[str], machine: str, into: Path) -> None:
    """Create the folder `into`, replacing an old one. lock: text of the lock. Raises BundleError."""
    shutil.rmtree(into, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = {python: download(wheel, lock, python, machine, Path(scratch, python)) for python in pythons}
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
    parser.add_argument("wheel", type=Path, help="edgemeta's: dist/edgemeta-….whl")
    parser.add_argument("--lock", required=True, type=Path, help="what it needs: packaging/requirements.txt")
    parser.add_argument("--machine", required=True, choices=["x86_64", "aarch64"])
    parser.add_argument("--pythons", required=True, nargs="+", metavar="3.X")
    parser.add_argument("--into", required=True, type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        bundle(arguments.wheel, arguments.lock.read_text(), arguments.pythons, arguments.machine, arguments.into)
    except BundleError as error:
        sys.exit(f"bundle: {error}")


if __name__ == "__main__":
    main()
