"""A disk that is full for minutes under 30 frames per second: what is logged, what arrives, how large the files grow.

The outbox is on a small disk of its own (root only); between the service and a real mosquitto is a network that can be
cut. The disk becomes full while the broker is unavailable and messages are on it, and stays full: space that becomes
free is filled at once. Then the broker returns, and all messages on disk and in memory must arrive; the service is
stopped, and later killed, and restarted without a broker, and what its file held must arrive when the broker returns.
A subscriber accounts for every frame (rig/message_audit.py).

It fails if the outbox logs more lines than promised, if messages stay in the outbox after the broker's return, or if
any are lost or repeated in changed form. Messages in memory are lost when the service ends, by design: these newest
ones are counted from the log and are no failure.

    python reliability/full_disk.py --minutes 10 --keep       writes benchmarks/results/full-disk.json
"""

import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json
from rig.disk import SmallDisk, in_own_namespace
from rig.system import System
from rig.waiting import RigError, free_port, wait_until

RATE = 30
LINES = 12
"""Log lines of the outbox that a disk may make that is full for ten minutes, with two restarts."""

STUCK_AFTER = 60.0
"""Seconds after which a message that waits counts as stuck once the broker is back: 30,000 are sent in that time."""

LOOK_EVERY = 0.25
"""Seconds between two checks at the service's metrics."""

MESSAGES_FIRST = 300
"""Messages on disk when it becomes full."""


def keys(port: int) -> dict[str, Any]:
    """Return the service's config; its metrics are served at `port`."""
    return {
        "cameras": {"front": {"source": "synthetic://?scene=0.2", "fps": RATE}},
        "state": {"min_frames": 1, "window_frames": 1},
        "log": {"level": "info"},
        "web": {"enabled": True, "port": port},
    }


class Observer:
    """Keeps the disk full while `full` is set; notes the size of the log file, and what the metrics say of the outbox.

    `places` has each change of `edgemeta_outbox_on_disk`, as the alert `EdgemetaOutboxInMemory` would see it.
    """

    def __init__(self, rig: System, disk: SmallDisk, port: int) -> None:
        self.greatest_log = self.waiting = self.greatest_waiting = 0
        self._address = f"http://127.0.0.1:{port}/metrics"
        self.places: list[str] = []
        self.full = threading.Event()
        self._rig = rig
        self._disk = disk
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        log = self._rig.state / f"outbox-{self._rig.device}.sqlite3-wal"
        while not self._closing.wait(LOOK_EVERY):
            if self.full.is_set():
                self._disk.fill()
            if log.exists():
                self.greatest_log = max(self.greatest_log, log.stat().st_size)
            with suppress(OSError):  # the service is being started again
                self._read(urllib.request.urlopen(self._address, timeout=10).read().decode())

    def _read(self, metrics: str) -> None:
        found = dict(re.findall(r"^(edgemeta_outbox_(?:messages|on_disk))(?:{.*})? (.*)$", metrics, re.MULTILINE))
        self.waiting = round(float(found["edgemeta_outbox_messages"]))
        self.greatest_waiting = max(self.greatest_waiting, self.waiting)
        place = "disk" if float(found["edgemeta_outbox_on_disk"]) else "memory"
        if self.places[-1:] != [place]:
            self.places.append(place)

    def close(self) -> None:
        """Stop."""
        self._closing.set()
        self._thread.join()


class FullDisk:
    """Keeps a disk full while broker and service stop and return."""

    def __init__(self, rig: System, disk: SmallDisk, port: int, seconds: float) -> None:
        self.rig = rig
        self.observer = Observer(rig, disk, port)
        self.delivered_after_s: list[float] = []
        self.stuck = 0
        self._disk = disk
        self._seconds = seconds

    def run(self) -> None:
        """Run all parts, each for its share of the time."""
        rig = self.rig
        wait_until(lambda: rig.subscriber.since["front/frame"] > 5, "the first frames")
        rig.proxy.reset()
        wait_until(lambda: self.observer.waiting >= MESSAGES_FIRST, f"{MESSAGES_FIRST} messages that wait", 120)
        self.observer.full.set()
        self._pass(0.3)
        wait_until(lambda: self.observer.places[-1] == "memory", "the file to have no more room", 120)
        self._broker_returns()
        self._pass(0.2)
        rig.proxy.reset()
        self._pass(0.15)
        rig.running.stop()
        self._service_returns()
        self._pass(0.1)
        self._broker_returns()
        self._pass(0.1)
        rig.proxy.reset()
        self._pass(0.05)
        rig.running.kill()
        self._service_returns()
        self._pass(0.05)
        self._broker_returns()
        self._pass(0.05)
        self.observer.full.clear()
        self._disk.empty()
        wait_until(lambda: rig.subscriber.stats["outbox"]["place"] == "disk", "the outbox on disk again", 90)

    def _pass(self, share: float) -> None:
        """Wait for a share of the time."""
        time.sleep(share * self._seconds)

    def _service_returns(self) -> None:
        """Note what the file holds, and start the service again, without a broker."""
        self.rig.record_kill()
        self.rig.start_service().ready()

    def _broker_returns(self) -> None:
        """The disk is still full: whatever waits must arrive."""
        rig = self.rig
        rig.subscriber.since.clear()
        began = time.monotonic()
        rig.proxy.restore(forget=True)
        try:
            wait_until(self._delivered, "the messages that waited", STUCK_AFTER)
        except RigError:
            self.stuck += rig.subscriber.stats["outbox"]["waiting"]
        self.delivered_after_s.append(round(time.monotonic() - began, 2))

    def _delivered(self) -> bool:
        witness = self.rig.subscriber
        nothing_waits = witness.since["stats"] > 1 and witness.stats["outbox"]["waiting"] < 3
        return nothing_waits and not self.rig.lost_from_outbox


def measure(minutes: float, folder: Path) -> dict[str, Any]:
    """Run it; return the result. Raises RigError, with the service's log, where something never came."""
    port = free_port()
    rig = System(folder, "full-disk", keys(port))
    disk = SmallDisk(rig.state)
    play = None
    try:
        rig.write_config()
        rig.start_service()
        play = FullDisk(rig, disk, port, minutes * 60)
        play.run()
        _, code = rig.end()
        return result(play, code)
    except RigError as error:
        raise RigError(f"{rig.log.read_text('utf-8')[-6000:]}\n{error}") from error
    finally:
        if play is not None:
            play.observer.close()
        rig.close()
        disk.close()


def result(play: FullDisk, code: int) -> dict[str, Any]:
    """Return the summary."""
    rig, audit = play.rig, play.rig.subscriber.audit
    lines = rig.log.read_text("utf-8").splitlines()
    of_the_outbox = [line for line in lines if "outbox" in line]
    ended = [int(found[1]) for line in lines if (found := re.search(r"(\d+) messages in memory are lost", line))]
    results = audit.results(rig.killed.keys()).values()
    missing: Counter[str] = sum((one.missing for one in results), Counter())
    return {
        "frames_per_second": RATE,
        "frames": sum(one.frames for one in results),
        "historical": audit.historical,
        "log_lines_of_the_outbox": len(of_the_outbox),
        "log_lines_in_all": len(lines),
        "lines": of_the_outbox,
        "places": play.observer.places,
        "in_the_file_at_restarts": len(rig.pending),
        "greatest_number_waiting": play.observer.greatest_waiting,
        "delivered_after_the_broker_s": play.delivered_after_s,
        "stuck": play.stuck,
        "lost": rig.lost(),
        "repeated": audit.repeated,
        "contradictions": audit.contradictions,
        "dropped_by_reason": dict(missing),
        "in_memory_when_the_service_was_stopped": sum(ended),
        "greatest_log_bytes": play.observer.greatest_log,
        "exit_code": code,
        "load_average_of_the_last_minutes": round(os.getloadavg()[2], 1),
    }


def wrong_with(outcome: dict[str, Any]) -> list[str]:
    """Return the failures, one sentence each."""
    wrong = [f"{count} lost: {what}" for what, count in outcome["lost"].items() if count]
    if outcome["log_lines_of_the_outbox"] > LINES:
        wrong.append(f"{outcome['log_lines_of_the_outbox']} log lines of the outbox, promised are {LINES} at most")
    if outcome["stuck"]:
        wrong.append(f"{outcome['stuck']} messages still wait {STUCK_AFTER:g} s after the broker is back")
    if outcome["contradictions"]:
        wrong.append(f"{outcome['contradictions']} messages came again as other ones")
    if not outcome["in_the_file_at_restarts"]:
        wrong.append("no message was in the file when the service was started again: nothing is shown")
    return wrong


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the disk is full")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/full-disk.json")
    arguments = parser.parse_args()
    if not in_own_namespace():
        sys.exit("full_disk.py mounts a small disk: run it as root where a mount namespace is allowed")
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = {"minutes": arguments.minutes} | measure(arguments.minutes, Path(folder))
        except RigError as error:
            sys.exit(str(error))
    if arguments.keep:
        write_json("full-disk", f"python reliability/full_disk.py --minutes {arguments.minutes:g} --keep", outcome)
    print(json.dumps(outcome, indent=2))
    if wrong := wrong_with(outcome):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
