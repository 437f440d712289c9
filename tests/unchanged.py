"""`--leave-out-unchanged`, as in `make test`: costly proofs run only if something that they prove has changed.

Changes are counted from where the branch left main, those that are not committed among them. Where git cannot tell, and
with EDGEMETA_FULL=1, nothing is left out.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.verdicts import REPOSITORY, SOURCES

PROOFS = tuple(f"tests/{name}" for name in ("emulation", "kernels/cuda", "kernels/fpga", "plugins/cuda", "proof"))
"""Folders of CUDA emulation, machine code, FPGA simulation and mutants."""

_MAIN = ("origin/main", "main")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def changed_since_main(folder: Path) -> list[str] | None:
    """Files of a checkout that differ from main's where the branch left it; None where git cannot tell."""
    if _git(folder, "rev-parse", "--show-prefix") != "\n":  # no checkout, or a folder in another one
        return None
    bases = (_git(folder, "merge-base", "HEAD", main) for main in _MAIN)
    if (base := next(filter(None, bases), None)) is None:
        return None
    differing = _git(folder, "diff", "--name-only", "-z", base.strip())
    new = _git(folder, "ls-files", "--others", "--exclude-standard", "-z")
    return None if differing is None or new is None else [*filter(None, (differing + new).split("\0"))]


def is_unchanged(folder: Path) -> bool:
    """Whether nothing differs that the proofs prove."""
    changed = changed_since_main(folder)
    return changed is not None and not any(f"{path}/".startswith(f"{each}/") for path in changed for each in SOURCES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--leave-out-unchanged`."""
    text = f"leave out {', '.join(PROOFS)} if nothing that they prove differs from the main branch"
    parser.addoption("--leave-out-unchanged", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Decided once: the workers of pytest-xdist, which get the arguments as they were given, are told the answer."""
    if config.option.leave_out_unchanged:
        told = getattr(config, "workerinput", {}).get("leave_out_unchanged")
        is_full = os.environ.get("EDGEMETA_FULL") == "1"
        config.option.leave_out_unchanged = not is_full and is_unchanged(REPOSITORY) if told is None else told


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist."""
    node.workerinput["leave_out_unchanged"] = node.config.option.leave_out_unchanged


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Nothing of a folder that is left out is imported."""
    is_left_out = config.option.leave_out_unchanged and collection_path in [REPOSITORY / each for each in PROOFS]
    return True if is_left_out else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out."""
    if terminalreporter.config.option.leave_out_unchanged:
        terminalreporter.section("left out, since nothing they prove has changed", yellow=True)
        terminalreporter.write_line(f"{', '.join(PROOFS)} (EDGEMETA_FULL=1 runs them)")
