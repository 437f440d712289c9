"""Runtimes in processes of their own, pinned, that take turns: the times of each, and how they compare."""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
PACES = ("hot", "paced")
_BUSY = """
import os, sys
import numpy as np
os.sched_setaffinity(0, [int(sys.argv[1])])
a, b = np.ones((256, 256), np.float32), np.zeros(1 << 22, np.float32)
while True:
    a @ a
    b += 1
"""
"""A neighbour of 16 MB: products from the caches, sums through them."""


@dataclass(frozen=True)
class Turns:
    """How often: `rounds` of them, or as many as begin in `seconds`, and 9 at least; each of `calls` hot calls.

    A quarter as many are paced, after `pause` seconds of sleep. busy: the processor of a program that works meanwhile.
    """

    rounds: int
    seconds: float
    calls: int
    pause: float
    busy: int | None = None

    @property
    def paced_calls(self) -> int:
        """Paced calls of a round."""
        return max(1, self.calls // 4)


@dataclass
class Times:
    """Microseconds of every call of a runtime, by pace and round."""

    rounds: dict[str, list[list[float]]] = field(default_factory=lambda: {pace: [] for pace in PACES})

    def medians(self, pace: str) -> list[float]:
        """Of each round."""
        return [float(np.median(each)) for each in self.rounds[pace]]

    def all(self, pace: str) -> list[float]:
        """Of all rounds."""
        return [each for taken in self.rounds[pace] for each in taken]


class Process:
    """A runtime with the network loaded, in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._answer()

    def times(self, calls: int, pause: float) -> list[float]:
        """Microseconds of so many calls, with `pause` seconds of sleep before each."""
        assert self._process.stdin is not None
        print(calls, pause, file=self._process.stdin, flush=True)
        found: list[float] = json.loads(self._answer())
        return found

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{shlex.join(map(str, self._process.args))} ended with {self._process.wait()}")  # type: ignore[arg-type]
        return line


def measure(
    files: Mapping[str, tuple[str, Path]], threads: int, cores: str, turns: Turns, title: str
) -> dict[str, Times]:
    """The times of each runtime of `files`: its kind (runtime_process.RUNTIMES) and file by name."""
    with ExitStack() as stack:
        if turns.busy is not None:
            stack.enter_context(_neighbour(turns.busy))
        processes = {
            name: stack.enter_context(started(kind, file, threads, cores)) for name, (kind, file) in files.items()
        }
        times = {name: Times() for name in processes}
        number, begin = 0, time.monotonic()
        while number < turns.rounds and (number < 9 or time.monotonic() < begin + turns.seconds):
            number += 1
            print(f"\r{title}: round {number}", end="", file=sys.stderr, flush=True)
            for name, process in processes.items():
                times[name].rounds["hot"].append(process.times(turns.calls, 0))
            for name, process in processes.items():
                times[name].rounds["paced"].append(process.times(turns.paced_calls, turns.pause))
        print(file=sys.stderr)
    return times


def figures(times: Mapping[str, Times], ours: str) -> dict[str, dict[str, Any]]:
    """Least, median and p99 by runtime; how long ours takes as a share of it, and where 90 % of the rounds lie."""
    found: dict[str, dict[str, Any]] = {}
    for name, taken in times.items():
        found[name] = {"rounds": len(taken.rounds["hot"])}
        for pace in PACES:
            each = taken.all(pace)
            by_round = [a / b for a, b in zip(times[ours].medians(pace), taken.medians(pace), strict=True)]
            found[name] |= {
                f"{pace}_min": round(min(each), 1),
                f"{pace}_median": round(float(np.median(each)), 1),
                f"{pace}_p99": round(float(np.percentile(each, 99)), 1),
                f"{pace}_ours_divided_by_it": round(float(np.median(times[ours].all(pace)) / np.median(each)), 3),
                f"{pace}_rounds_5_95": [round(float(np.percentile(by_round, share)), 3) for share in (5, 95)],
            }
    return found


def table(title: str, found: Mapping[str, Mapping[str, Any]]) -> str:
    """Make the Markdown table of one network."""
    lines = [
        title,
        "",
        "| runtime | min | median | p99 | paced min | paced median | paced p99 | ours / it | paced |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    columns = [f"{pace}_{figure}" for pace in PACES for figure in ("min", "median", "p99")]
    for runtime, row in sorted(found.items(), key=lambda item: float(item[1]["hot_median"])):
        shares = [
            "{} ({} to {})".format(row[f"{pace}_ours_divided_by_it"], *row[f"{pace}_rounds_5_95"]) for pace in PACES
        ]
        lines.append(f"| {runtime} | {' | '.join([*(str(row[column]) for column in columns), *shares])} |")
    return "\n".join(lines)


@contextmanager
def started(kind: str, file: Path, threads: int, cores: str) -> Iterator[Process]:
    """A runtime's process, ended with the block."""
    command = [sys.executable, "-m", "benchmarks.runtime_process", kind, str(file), str(threads), cores]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        yield Process(process)


@contextmanager
def _neighbour(core: int) -> Iterator[None]:
    """A program that keeps a processor and its caches busy."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY, str(core)], env={"OPENBLAS_NUM_THREADS": "1"})
    try:
        yield
    finally:
        process.kill()
        process.wait()
