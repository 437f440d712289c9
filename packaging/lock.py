"""Renew the locks of what is packaged: versions and SHA-256 of every library, for all Pythons and processors.

    requirements.txt         what packages and image contain: edgemeta's dependencies and those of `signature`
    build-requirements.txt   what builds and checks the packages: the extra `package`

Run by `make lock`; needs a network connection. The ranges are those of pyproject.toml.
"""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parent / "pyproject.toml"
LOCKS = {"requirements.txt": ("", "signature"), "build-requirements.txt": ("package",)}
"""Which groups of pyproject.toml a lock holds; "" are the dependencies that everybody needs."""
OLDEST = "3.10"


def ranges(groups: tuple[str, ...]) -> list[str]:
    """The requirements of some groups, as pyproject.toml has them."""
    if sys.version_info < (3, 11):
        sys.exit(f"lock: Python {sys.version.split()[0]}, expected 3.11 or newer")
    import tomllib

    project = tomllib.loads(PROJECT.read_text())["project"]
    known = {"": project["dependencies"], **project["optional-dependencies"]}
    return [requirement for group in groups for requirement in known[group]]


def locked(groups: tuple[str, ...]) -> str:
    """The lines of a lock: `name==version ; marker` and the digests of all files of that version."""
    command = ["uv", "pip", "compile", "-", "--no-config", "--universal", f"--python-version={OLDEST}"]
    options = ["--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    wanted = "\n".join(ranges(groups))
    done = subprocess.run([*command, *options], input=wanted, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"lock: uv found no versions: {done.stderr.strip()}")
    return done.stdout


def versions(lock: str) -> list[str]:
    """The requirements of a lock without digests, to be compared."""
    return re.findall(r"^([\w.-]+==[^ ]+)", lock, re.MULTILINE)


def main() -> None:
    """Write both, and say what changed."""
    for name, groups in LOCKS.items():
        path = FOLDER / name
        old, new = versions(path.read_text()) if path.exists() else [], locked(groups)
        path.write_text(new)
        changed = sorted(set(versions(new)) - set(old))
        print(f"{name}: {len(versions(new))} requirements, {', '.join(changed) if changed else 'none'} new")


if __name__ == "__main__":
    main()
