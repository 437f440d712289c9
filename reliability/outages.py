"""Outages: no message may be lost while broker and network fail again and again and the service is killed.

The service runs at 30 frames per second. Between it and a real mosquitto is a network that can be cut. A subscriber
records every message. Outages of three kinds alternate: the broker is killed (SIGKILL) and returns with what it saved,
the network is cut (reset, or silent), the broker is stopped and returns empty. In between the service itself is killed
(SIGKILL), with and without a connection, and the content of its outbox file is recorded.

At the end every start of the service is checked (rig/message_audit.py), and every message that was in the outbox
file when the service was killed must have arrived.

    python reliability/outages.py --outages 100 --kills 20 --keep      writes benchmarks/results/outages.json
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.result_file import write_json
from rig.system import System
from rig.waiting import RigError, wait_until

RETAINED = ("availability", "info", "front/status", "front/state")
KEYS = {
    "cameras": {"front": {"source": "synthetic://?scene=0.2", "fps": 30}},
    "state": {"min_frames": 1, "window_frames": 1},
}


class Outages:
    """Makes outages, one at a time, and waits for the service to recover."""

    def __init__(self, rig: System, seed: int) -> None:
        self.rig = rig
        self.random = random.Random(seed)
        self.made: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()

    def pause(self, shortest: float, longest: float) -> None:
        """Wait for some time."""
        time.sleep(self.random.uniform(shortest, longest))

    def make(self, kind: str) -> None:
        """Make one outage of the broker."""
        self.made[kind] += 1
        if kind == "network cut":
            self._cut_network()
        else:
            number = signal.SIGKILL if kind == "broker killed" else signal.SIGTERM
            self.rig.restart_broker(number, kind == "broker empty", lambda: self.pause(0.1, 1.0))
        self.rig.subscriber.next_frame("front").within(time.monotonic())
        if kind == "broker empty":
            wait_until(lambda: all(self.rig.subscriber.since[topic] for topic in RETAINED), "the retained topics")
        self.pause(0.2, 1.0)

    def _cut_network(self) -> None:
        if self.random.random() < 0.5:
            self.rig.proxy.reset()
            self.pause(0.2, 2.0)
            self.rig.proxy.restore(forget=True)
        else:
            self.rig.proxy.silence()
            self.pause(0.5, 4.0)
            self.rig.proxy.restore(forget=self.random.random() < 0.5)

    def kill(self, connected: bool) -> None:
        """Kill the service, with or without a connection, note what its outbox holds, and start it again."""
        self.kills["connected" if connected else "without a broker"] += 1
        if not connected:
            self.rig.proxy.reset()
            self.pause(0.5, 2.0)
        self.rig.running.kill()
        self.rig.record_kill()
        self.rig.proxy.restore(forget=True)
        boots = len(self.rig.subscriber.audit.boots)
        self.rig.start_service()
        wait_until(lambda: len(self.rig.subscriber.audit.boots) > boots, "frames of the new start")
        self.pause(0.2, 1.0)


def run(outages: int, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Make outages and kills in random order and check the messages."""
    rig = System(folder, "outages", KEYS)
    begun = time.monotonic()
    try:
        rig.write_config()
        rig.start_service()
        wait_until(lambda: rig.subscriber.since["front/frame"] > 5, "the first frames")
        making = Outages(rig, seed)
        kinds = ("broker killed", "network cut", "broker empty")
        events: list[tuple[str, bool]] = [(kinds[number % 3], False) for number in range(outages)]
        events += [("kill", number % 2 == 0) for number in range(kills)]
        making.random.shuffle(events)
        for number, (kind, connected) in enumerate(events, 1):
            if kind == "kill":
                making.kill(connected)
            else:
                making.make(kind)
            if number % 10 == 0:
                print(f"{number} of {len(events)}, {len(rig.subscriber.audit.messages)} messages", file=sys.stderr)
        _, code = rig.end()
        return result(rig, making, seed, code, time.monotonic() - begun)
    except RigError as error:
        sys.exit(f"{rig.log.read_text('utf-8')[-4000:]}\n{error}")
    finally:
        rig.close()


def result(rig: System, making: Outages, seed: int, code: int, seconds: float) -> dict[str, Any]:
    """Return the summary."""
    audit = rig.subscriber.audit
    results = audit.results(rig.killed.keys()).values()
    cut_off = sorted(
        (moment - datetime.fromisoformat(audit.newest[boot])).total_seconds() for boot, moment in rig.killed.items()
    )
    missing: Counter[str] = sum((one.missing for one in results), Counter())
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "outages": dict(making.made),
        "kills_of_the_service": dict(making.kills),
        "starts_seen": len(results),
        "frames": sum(one.frames for one in results),
        "states": sum(len(states) for states in audit.states.values()),
        "historical": audit.historical,
        "repeated": audit.repeated,
        "contradictions": audit.contradictions,
        "dropped_by_reason": dict(missing),
        "in_the_outbox_at_kills": len(rig.pending),
        "newest_message_at_a_kill_s": {"median": round(median(cut_off), 3), "greatest": round(cut_off[-1], 3)}
        if cut_off
        else None,
        "lost": rig.lost(),
        "exit_code": code,
    }


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--outages", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/outages.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(arguments.outages, arguments.kills, arguments.seed, Path(folder))
    if arguments.keep:
        command = f"python reliability/outages.py --outages {arguments.outages} --kills {arguments.kills} --keep"
        write_json("outages", command, outcome)
    print(json.dumps(outcome, indent=2))
    if any(outcome["lost"].values()) or outcome["contradictions"]:
        sys.exit("messages are lost")


if __name__ == "__main__":
    main()
