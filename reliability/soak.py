"""The fault suite: each part killed, frozen, cut off and restarted at random while frames flow.

The service runs under a service manager that is this program, with a clip and four real RTSP cameras, 90 frames per
second together, a real mosquitto, and a network before broker and camera. It injects fault after fault, sometimes two
at once (rig/faults/). After each one, frames of all cameras must arrive within the promised time, and all that the
service reports must be true. A subscriber accounts for every frame (rig/message_audit.py).

    python reliability/soak.py --minutes 30 --keep            writes benchmarks/results/soak.json
    python reliability/soak.py --minutes 30 --quiet --keep    no faults: writes benchmarks/results/soak-quiet.json
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks.result_file import write_json
from rig.disk import in_own_namespace
from rig.faults import FAULTS, Fault
from rig.scenario import BACK_WITHIN, CAMERAS, Scenario
from rig.waiting import RigError

TOGETHER = 0.3
"""Share of the rounds with a second fault at the same time."""

QUIET_EVERY = 10.0
"""Seconds between two checks without faults."""

GREATEST_GROWTH = {"threads": 3, "files": 6, "children": 0, "rss_kib": 10_240}
"""What one process may hold at a quiet point more than at its first one. Three threads, with a connection and a pipe
each, are readers that a camera has abandoned and whose calls have not returned yet."""


class Suite:
    """Injects faults until the time is over, and checks the service."""

    def __init__(self, scenario: Scenario, faults: list[Fault], seed: int) -> None:
        self.scenario = scenario
        self.played: Counter[str] = Counter()
        self.together = 0
        self._random = random.Random(seed)
        self._faults = faults
        self._deck: list[Fault] = []

    def run(self, seconds: float, faulty: bool) -> float:
        """Run for the given seconds; return the seconds it took."""
        begun = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=seconds)
            self.scenario.open()
            self.scenario.check_quiet()
            while (gone := time.monotonic() - begun) < seconds:
                chosen = self._choose() if faulty else []
                description = " + ".join(fault.name for fault in chosen) or "no fault"
                progress.update(task, completed=gone, description=f"{sum(self.played.values())}: {description}")
                self._round(chosen, description)
        return time.monotonic() - begun

    def _choose(self) -> list[Fault]:
        """Return the next fault, and sometimes a second one. Each comes once before any is repeated."""
        if not self._deck:
            self._deck = self._random.sample(self._faults, len(self._faults))
        first = self._deck.pop()
        if first.alone or self._random.random() >= TOGETHER:
            return [first]
        second = next((one for one in self._deck if not one.alone and one.part != first.part), None)
        if second is None:
            return [first]
        self._deck.remove(second)
        return [first, second]

    def _round(self, chosen: list[Fault], description: str) -> None:
        """Begin the faults, end them, and check that the service has recovered."""
        scenario = self.scenario
        scenario.alone = len(chosen) < 2
        self.together += not scenario.alone
        started = [fault.steps(scenario) for fault in chosen]
        try:
            for steps in started:
                next(steps)
            scenario.pause(0.1, 2.0)
            for steps in started:
                next(steps, None)
            self.played.update(fault.name for fault in chosen)
            self._back(chosen)
            scenario.check_quiet()
        except RigError as error:
            raise RigError(f"{description}: {error}") from error
        scenario.pause(0.0, 1.0 if chosen else QUIET_EVERY)

    def _back(self, chosen: list[Fault]) -> None:
        """Wait for frames of all cameras."""
        began = time.monotonic()
        took = self.scenario.frames_of(*CAMERAS)(began)
        if chosen and chosen[0].part in ("broker", "camera"):
            self.scenario.time(f"frames after: {chosen[0].name}", took, BACK_WITHIN)


def growth(held: list[dict[str, int]]) -> dict[str, dict[str, int]]:
    """Compare what each process held at its quiet points with its first one."""
    processes: dict[int, list[dict[str, int]]] = {}
    for one in held:
        processes.setdefault(one["pid"], []).append(one)
    return {
        kind: {
            "at_first_median": round(median(points[0][kind] for points in processes.values())),
            "greatest": max(one[kind] for one in held),
            "greatest_growth": max(point[kind] - points[0][kind] for points in processes.values() for point in points),
            "allowed_growth": allowed,
        }
        for kind, allowed in GREATEST_GROWTH.items()
    }


def verdict(outcome: dict[str, Any]) -> list[str]:
    """Return the failures, one sentence each."""
    wrong = [f"{count} lost: {what}" for what, count in outcome["lost"].items() if count]
    wrong += [f"later than promised: {one}" for one in outcome["late"]]
    wrong += [
        f"{kind} grew by {one['greatest_growth']} in one process, allowed are {one['allowed_growth']}"
        for kind, one in outcome["held_at_quiet_points"].items()
        if one["greatest_growth"] > one["allowed_growth"]
    ]
    if outcome["contradictions"]:
        wrong.append(f"{outcome['contradictions']} messages came again as other ones")
    if outcome["tracebacks"]:
        wrong.append(f"{outcome['tracebacks']} tracebacks in the service's log")
    return wrong


def soak(minutes: float, seed: int, slack: float, faults: list[Fault], mounts: bool) -> dict[str, Any]:
    """Run the suite; return the result. Raises RigError, with the service's log, where something never came."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scenario = Scenario(folder, seed, slack, mounts)
        suite = Suite(scenario, faults, seed)
        try:
            seconds = suite.run(minutes * 60, bool(faults))
            took, code = scenario.system.end()
            scenario.time("SIGTERM to the end", took, 2.0)
            return result(suite, faults, seconds, code)
        except RigError as error:
            log = scenario.system.log.read_text("utf-8") if scenario.system.log.exists() else ""
            raise RigError(f"{log[-6000:]}\nseed {seed}: {error}") from error
        finally:
            scenario.close()


def result(suite: Suite, faults: list[Fault], seconds: float, code: int) -> dict[str, Any]:
    """Return the summary."""
    scenario, audit = suite.scenario, suite.scenario.system.subscriber.audit
    results = audit.results(scenario.system.killed.keys())
    missing: Counter[str] = sum((one.missing for one in results.values()), Counter())
    log = scenario.system.log.read_text("utf-8")
    return {
        "seconds": round(seconds),
        "faults": {one.name: suite.played[one.name] for one in faults},
        "faults_played": sum(suite.played.values()),
        "two_at_once": suite.together,
        "starts_of_the_service": len(audit.boots),
        "frames": sum(one.frames for one in results.values()),
        "states": sum(len(states) for states in audit.states.values()),
        "historical": audit.historical,
        "repeated": audit.repeated,
        "not_published_by_reason": dict(missing),
        "in_the_outbox_at_kills": len(scenario.system.pending),
        "lost": scenario.system.lost(),
        "contradictions": audit.contradictions,
        "durations": scenario.durations,
        "late": scenario.late,
        "quiet_points": len(scenario.held),
        "held_at_quiet_points": growth(scenario.held),
        "tracebacks": log.count("Traceback (most recent call last)"),
        "exit_code": code,
        "load_average_of_the_last_minutes": round(os.getloadavg()[2], 1),
    }


def show(outcome: dict[str, Any]) -> None:
    """Print what was timed, and the rest in a line or two."""
    console = Console(stderr=True)
    table = Table("promised", "count", "median", "greatest", "within")
    for what, one in outcome["durations"].items():
        seconds = [f"{one[key]:.2f} s" for key in ("median_s", "greatest_s", "promised_s")]
        table.add_row(what, str(one["count"]), *seconds)
    console.print(table)
    console.print(
        f"{outcome['faults_played']} faults ({outcome['two_at_once']} times two at once), "
        f"{outcome['starts_of_the_service']} starts, {outcome['frames']} frames and {outcome['states']} states, "
        f"{outcome['historical']} of them late, lost: {sum(outcome['lost'].values())}"
    )


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="the same faults again")
    parser.add_argument("--slack", type=float, default=1.0, help="how often the promised times a busy machine may take")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", choices=[one.name for one in FAULTS])
    parser.add_argument("--quiet", action="store_true", help="play no faults")
    parser.add_argument("--keep", action="store_true", help="write the result file")
    arguments = parser.parse_args()
    mounts = in_own_namespace()
    wanted = [] if arguments.quiet else arguments.only or [one.name for one in FAULTS]
    faults = [one for one in FAULTS if one.name in wanted and (mounts or not one.disk)]
    print(f"seed {arguments.seed}", file=sys.stderr)
    try:
        outcome = soak(arguments.minutes, arguments.seed, arguments.slack, faults, mounts)
    except RigError as error:
        sys.exit(str(error))
    quiet = " --quiet" if arguments.quiet else ""
    command = f"python reliability/soak.py --minutes {arguments.minutes:g} --seed {arguments.seed}{quiet} --keep"
    if arguments.keep:
        write_json("soak-quiet" if arguments.quiet else "soak", command, outcome)
    show(outcome)
    print(json.dumps(outcome, indent=2))
    if wrong := verdict(outcome):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
