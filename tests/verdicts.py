"""What costly proofs have passed: equal sources, tools and processor give the same verdict, so it is not sought twice.

Only passes are kept, in pytest's cache (`--cache-clear` forgets them). With EDGEMETA_FULL=1, as on the gate, none is
read: all is proved.
"""

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

SOURCES = (
    *("kernels", "model", "plugins", "proof", "rig", "tasks", "pyproject.toml"),
    *(
        f"tests/{name}"
        for name in ("conformance", "emulation", "kernels", "plugins", "proof", "parts.py", "verdicts.py")
    ),
)
"""Of what is proved and of what proves it."""

TOOLS = ("g++", "aarch64-linux-gnu-g++", "arm-linux-gnueabihf-g++", "qemu-aarch64", "qemu-arm", "iverilog")
PROVED = "passed before in the same circumstances (EDGEMETA_FULL=1 proves it again)"
"""Why a test whose rows are all known is skipped."""

GENERATIONS = 5
"""Of sources, whose verdicts are kept."""


@cache
def circumstances() -> str:
    """Digest of everything that a verdict may depend on."""
    found = sha256()
    for name in SOURCES:
        root = REPOSITORY / name
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(REPOSITORY)}\0{sha256(path.read_bytes()).hexdigest()}\0".encode())
    for tool in filter(shutil.which, TOOLS):
        found.update(subprocess.run([tool, "--version"], capture_output=True, check=False).stdout)
    found.update("\n".join(sorted(f"{each.name} {each.version}" for each in distributions())).encode())
    found.update(f"{sys.version} {platform.platform()}".encode())
    flags = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("flags", "Features"))]
    found.update(flags[0].encode() if flags else b"")
    return found.hexdigest()


def folder_of(config: pytest.Config) -> Path | None:
    """Where the verdicts of these circumstances are; None where there is no cache."""
    if not hasattr(config, "cache") or config.cache is None:
        return None
    generations = config.cache.mkdir("verdicts")
    folder = generations / circumstances()
    if not folder.is_dir():
        for old in sorted(generations.iterdir(), key=os.path.getmtime)[: 1 - GENERATIONS]:
            shutil.rmtree(old, ignore_errors=True)
        folder.mkdir(exist_ok=True)
    return folder


def name_of(nodeid: str, row: str) -> str:
    """A verdict's file."""
    return sha256(f"{nodeid}\0{row}".encode()).hexdigest()


def is_kept(item: pytest.Item, row: str) -> bool:
    """Whether this row of a test is known to pass."""
    if os.environ.get("EDGEMETA_FULL") == "1" or (folder := folder_of(item.config)) is None:
        return False
    return (folder / name_of(item.nodeid, row)).exists()


def keep(item: pytest.Item, row: str) -> None:
    """A row has passed."""
    if (folder := folder_of(item.config)) is not None:
        (folder / name_of(item.nodeid, row)).touch()
