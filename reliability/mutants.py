"""Plants small mistakes in the product, one after the other, and says which of them no test notices.

    python -m reliability.mutants [--file TEXT] [--list FILE]

Each entry of the list (reliability/mutants.yaml by default) replaces one text of one file; the tests that it names are
run on a copy of the repository with that mistake, after they have passed without one. A mistake that they do not notice
survives. `--file` takes those whose file's path contains a text. Writes results/mutants.json where all of the default
list were planted, and exits with 1 if one survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.result_file import write_json

REPOSITORY = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".yaml")
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".pytest_cache", ".mypy_cache", "results")


@dataclass(frozen=True)
class Mutant:
    """One entry of the list. tests: paths for pytest, separated by blanks."""

    file: str
    before: str
    after: str
    tests: str

    def __str__(self) -> str:
        return f"{self.file}: {self.before} -> {self.after}"

    def planted(self, text: str) -> str:
        """A file's text with the mistake. Raises ValueError where it does not say what to replace."""
        if text.count(self.before) != 1:
            raise ValueError(f"{self.file} has {text.count(self.before)} times {self.before!r}, expected once")
        return text.replace(self.before, self.after)


def read(path: Path) -> list[Mutant]:
    """The list of a file. Raises TypeError for an entry with a missing or unknown key."""
    return [Mutant(**entry) for entry in yaml.safe_load(path.read_text("utf-8"))]


def main() -> None:
    """Plant, test, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default="", help="only mistakes in files whose path contains this text")
    parser.add_argument("--list", type=Path, default=LIST, help="the mistakes")
    options = parser.parse_args()
    mutants = [each for each in read(options.list) if options.file in each.file]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "edgemeta"
        shutil.copytree(REPOSITORY, copy, symlinks=True, ignore=_NOT_COPIED)
        survivors = planted(copy, mutants)
    print(f"{len(mutants)} planted, {len(survivors)} survive")
    if not options.file and options.list == LIST:
        values = {"planted": [str(each) for each in mutants], "survivors": [str(each) for each in survivors]}
        write_json("mutants", "python -m reliability.mutants", values)
    sys.exit(bool(survivors))


def planted(copy: Path, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Those that no test notices. Raises RuntimeError if tests fail without a mistake."""
    passing: set[str] = set()
    survivors = []
    for mutant in mutants:
        if mutant.tests not in passing and not passes(copy, mutant.tests):
            raise RuntimeError(f"{mutant.tests} fail without a mistake")
        passing.add(mutant.tests)
        path = copy / mutant.file
        text = path.read_text("utf-8")
        path.write_text(mutant.planted(text), "utf-8")
        survives = passes(copy, mutant.tests)
        path.write_text(text, "utf-8")
        print("SURVIVES" if survives else "killed  ", mutant, flush=True)
        survivors += [mutant] if survives else []
    return survivors


def passes(copy: Path, tests: str) -> bool:
    """Whether the tests of `make test` among these pass on the copy."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests.split()]
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
