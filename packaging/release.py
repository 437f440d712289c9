"""Build a release twice from its commit, compare both, and write what somebody needs to publish and to check it.

    make release                    wheels, source package and Debian packages into dist/release-VERSION/
    make release PARTS=wheels       without the Debian packages
    make release REHEARSE=1         also where the change log has no section for the version yet

The commit is built in two folders of different names, in different time zones and at different times; files that
differ end the release. Beside the packages are written: SHA256SUMS; a bill of materials for each Debian package
(CycloneDX); provenance.json (SLSA 1: commit, locks and tools that made these digests). Uploading is left to a person.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ("build-requirements.txt", "requirements.txt")
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Of the Debian packages, by their architecture."""
WHEELS = (*MACHINES.values(), "armv7l")
TURNS = {"first": "UTC", "second-in-a-longer-folder": "Pacific/Kiritimati"}
"""Folder and time zone of both builds."""


class ReleaseError(Exception):
    """The release cannot be made; one sentence."""


def run(command: Iterable[str | Path], folder: Path = ROOT, environment: Mapping[str, str] | None = None) -> str:
    """Run a command; return its output. Raises ReleaseError with its last line."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing was said"]
        raise ReleaseError(f"{' '.join(words[:3])} failed in {folder}: {said[-1]}")
    return done.stdout.strip()


def version_of(root: Path) -> str:
    """The version that the source states."""
    found = re.search(r'^__version__ = "(.*)"', (root / "src/edgemeta/__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def check_source(root: Path, version: str, rehearse: bool) -> str:
    """The commit. Raises ReleaseError where the tree is not that of a commit, or lacks what a version needs."""
    changed = run(["git", "status", "--porcelain"], root)
    if changed:
        raise ReleaseError(f"{root}: {changed.splitlines()[0].strip()} is not committed, expected a clean checkout")
    if not rehearse and f"\n## {version}" not in (root / "CHANGELOG.md").read_text():
        raise ReleaseError(
            f"{root / 'CHANGELOG.md'}: no section '## {version}', expected one for the version to release"
        )
    if not rehearse and f'"version": "{version}"' not in (root / "docs/stable.json").read_text():
        raise ReleaseError(f"docs/stable.json: not of {version}, expected `python -m tools.promise --write` before it")
    return run(["git", "rev-parse", "HEAD"], root)


def locked_tools(folder: Path) -> Path:
    """A virtual environment with what both locks name, each file proved by its digest; its bin folder."""
    venv.create(folder, with_pip=True, clear=True)
    install: list[str | Path] = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--require-hashes"]
    for name in LOCKS:
        run([*install, f"--requirement={ROOT / 'packaging' / name}"])
    return folder / "bin"


def build(commit: str, folder: Path, tools: Path, zone: str, pythons: Sequence[str]) -> dict[str, Path]:
    """Build all packages of a commit in a checkout of its own; returns them by name.

    pythons: those of the Debian packages; without, there are none.
    """
    run(["git", "worktree", "add", "--force", "--detach", folder, commit])
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TZ": zone, "PYTHONPATH": str(folder / "src")}
    wheel = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir=dist", "./proof"]
    commands = [["packaging/wheel.sh", machine] for machine in WHEELS]
    commands += [wheel, ["python", "-m", "build", "--no-isolation", "--sdist", "--outdir=dist"]]
    for architecture in MACHINES if pythons else ():
        bill = f"--out=dist/edgemeta-{architecture}.cdx.json"
        commands.append(["packaging/deb.sh", architecture, *pythons])
        commands.append(["python", "packaging/sbom.py", f"build/deb/{architecture}/bundle", bill])
    environment["SOURCE_DATE_EPOCH"] = run(["git", "log", "-1", "--format=%ct", commit])
    for command in commands:
        print(f"release: {folder.name}: {' '.join(command)}", flush=True)
        run(command, folder, environment)
    return {path.name: path for path in sorted((folder / "dist").iterdir())}


def digest(path: Path) -> str:
    """SHA-256 (hex) of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compared(first: Mapping[str, Path], second: Mapping[str, Path]) -> dict[str, str]:
    """The digest of each file by its name. Raises ReleaseError where both builds differ."""
    ours, theirs = ({name: digest(path) for name, path in each.items()} for each in (first, second))
    differing = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if differing:
        raise ReleaseError(f"{', '.join(differing)}: differs between two builds of one commit, expected equal files")
    return ours


def provenance(commit: str, digests: Mapping[str, str], tools: Path) -> dict[str, object]:
    """An in-toto statement with SLSA's provenance, version 1: what made the files of these digests."""
    locks = [ROOT / "packaging" / name for name in LOCKS]
    compilers = ["g++", "aarch64-linux-gnu-g++", "arm-linux-gnueabihf-g++"]
    made_by: dict[str, object] = {"python": run([tools / "python", "--version"])}
    made_by |= {name: run([name, "--version"]).splitlines()[0] for name in compilers if shutil.which(name)}
    system = platform.freedesktop_os_release()
    made_by["system"] = f"{system['ID']} {system.get('VERSION_ID', '')}".strip()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": each}} for name, each in digests.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "packaging/release.py",
                "externalParameters": {"commit": commit},
                "internalParameters": made_by,
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    *({"name": f"packaging/{lock.name}", "digest": {"sha256": digest(lock)}} for lock in locks),
                ],
            },
            "runDetails": {"builder": {"id": "a person, by `make release`"}},
        },
    }


def check_installed(wheel: Path, folder: Path, version: str) -> None:
    """Install the wheel and its locked requirements in a fresh environment, and run it. Raises ReleaseError."""
    venv.create(folder, with_pip=True, clear=True)
    install: list[str | Path] = [folder / "bin/python", "-m", "pip", "install", "--quiet"]
    run([*install, "--require-hashes", f"--requirement={ROOT / 'packaging/requirements.txt'}"])
    run([*install, "--no-deps", wheel])
    said = run([folder / "bin/edgemeta", "--version"], folder)
    if version not in said:
        raise ReleaseError(f"{wheel.name}: `edgemeta --version` says {said!r}, expected {version}")
    run([folder / "bin/edgemeta", "model", "list"], folder)
    run([folder / "bin/edgemeta", "backends"], folder)


def release(pythons: Sequence[str], rehearse: bool) -> Path:
    """Make the folder of a release; returns it. Raises ReleaseError."""
    version, scratch = version_of(ROOT), ROOT / "build/release"
    commit = check_source(ROOT, version, rehearse)
    shutil.rmtree(scratch, ignore_errors=True)
    run(["git", "worktree", "prune"])
    tools = locked_tools(scratch / "tools")
    try:
        first, second = (build(commit, scratch / name, tools, zone, pythons) for name, zone in TURNS.items())
        digests = compared(first, second)
        check_installed(next(path for name, path in first.items() if "x86_64" in name), scratch / "installed", version)
        into = ROOT / "dist" / f"release-{version}"
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        for path in first.values():
            shutil.copy2(path, into)
    finally:
        for name in TURNS:
            shutil.rmtree(scratch / name, ignore_errors=True)
        run(["git", "worktree", "prune"])
    (into / "SHA256SUMS").write_text("".join(f"{each}  {name}\n" for name, each in digests.items()))
    (into / "provenance.json").write_text(json.dumps(provenance(commit, digests, tools), indent=2) + "\n")
    return into


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="*", default=(), metavar="3.X", help="of the Debian packages; none: no such")
    parser.add_argument("--rehearse", action="store_true", help="the change log need not have the version")
    arguments = parser.parse_args()
    try:
        into = release(arguments.pythons, arguments.rehearse)
    except ReleaseError as error:
        sys.exit(f"release: {error}")
    print(f"release: both builds are equal; {into}: {', '.join(sorted(path.name for path in into.iterdir()))}")


if __name__ == "__main__":
    main()
