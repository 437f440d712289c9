"""Runs `make test` several times in a row, every second time beside a process that takes a core.

    python benchmarks/suite.py --runs 10      writes results/suite.json

Each run must give the same verdict. It is stated how long a run took, how much processor time it used, and what pytest
counted. Ends with an error where a run failed or counted something else than the first one.
"""

import argparse
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.result_file import write_json

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    """Read the command line, run, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    arguments = parser.parse_args()
    runs: list[dict[str, object]] = []
    for number in range(arguments.runs):
        runs.append(run(busy=number % 2 == 1))
        print(runs[-1], flush=True)
        write_json("suite", f"python benchmarks/suite.py --runs {arguments.runs}", {"runs": runs})
    if wrong := [each for each in runs if each["exit_code"] != 0 or each["counted"] != runs[0]["counted"]]:
        sys.exit(f"{len(wrong)} of {len(runs)} runs failed or differ from the first")


def run(busy: bool) -> dict[str, object]:
    """One run, alone or beside a busy process."""
    with busy_process() if busy else nothing():
        begun, before = time.monotonic(), processor_seconds()
        done = subprocess.run(["make", "test"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
        seconds, processor = time.monotonic() - begun, processor_seconds() - before
    (REPOSITORY / "build").mkdir(exist_ok=True)
    (REPOSITORY / "build" / "suite.txt").write_text(done.stdout + done.stderr)  # of the last run
    counted = re.findall(r"\d+ (?:passed|failed|skipped|xfailed|errors?)\b", done.stdout[-500:])
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return {
        "beside": "a busy process" if busy else "nothing",
        "seconds": round(seconds),
        "processor_seconds": round(processor),
        "exit_code": done.returncode,
        "counted": counted,
        **({"failed": failed} if failed else {}),
    }


def processor_seconds() -> float:
    """User and system time of all processes that ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def busy_process() -> Iterator[None]:
    """A process that takes all the time it gets."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def nothing() -> Iterator[None]:
    """Nothing beside the run."""
    yield


if __name__ == "__main__":
    main()
