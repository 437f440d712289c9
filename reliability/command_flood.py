"""One client floods a service with commands: frames must stay on time, and nothing of the flood may be kept.

A service that classifies 30 frames per second, with a mosquitto as it comes (its default limits). It is measured
without a flood, and while one client sends commands as fast as the broker takes them, kind after kind (reloads at QoS 0
and 1, random bytes, the longest payloads that are read). A frame is late where it reaches a subscriber more than one
frame time later after its capture than the latest one without a flood.

    python reliability/command_flood.py --keep      writes benchmarks/results/command-flood.json

The flooder is a separate process with niceness 19, as it is not part of what is measured. Exits with an error if a
frame is late or lost, the service holds more than 10 MB more afterwards, or its log or answers are not bounded.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.result_file import write_json
from rig.flooder import KINDS, NICENESS, Flooder
from rig.system import System
from rig.waiting import TIMEOUT, RigError, wait_until

DEVICE = "flooded"
RATE = 30
FRAME_TIME = 1 / RATE
COMMAND_RATE = 5
"""Commands per second that the service carries out: its default, `mqtt.max_commands_per_second`."""

MOST_MEMORY_KIB = 10 * 1000 * 1000 // 1024
MOST_LINES_PER_SECOND = 2 * COMMAND_RATE
"""Log lines: one for a command and one for its result. Equal lines, written once, are fewer."""

MOST_ANSWERS_PER_SECOND = COMMAND_RATE + 2
"""Answers: to commands that are carried out, and to a few of those that are refused."""

WARM_UP_COMMANDS = 5
SETTLES_WITHIN = 30.0
"""Seconds after a flood until memory must be given back."""


class Listener:
    """Notes for each live frame when it came and how long after its capture, and counts the answers to commands."""

    def __init__(self, port: int) -> None:
        self.frames: list[tuple[float, float]] = []
        self.answers: list[dict[str, Any]] = []
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        topics = [(f"edgemeta/{DEVICE}/front/frame", 0), (f"edgemeta/{DEVICE}/resp/+", 0)]
        self._client.on_connect = lambda client, *_: client.subscribe(topics)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        if not subscribed.wait(TIMEOUT):
            raise RigError("the subscriber could not subscribe")

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        now, moment = time.time(), time.monotonic()
        content = json.loads(message.payload)
        if "verb" in content:
            self.answers.append(content)
        elif not content["historical"]:
            captured = datetime.fromisoformat(content["captured"].replace("Z", "+00:00")).timestamp()
            self.frames.append((moment, now - captured))

    def send(self, verb: str) -> None:
        """Send one command and wait for its answer."""
        before = len(self.answers)
        self._client.publish(f"edgemeta/{DEVICE}/cmd/{verb}", b"", 1)
        wait_until(lambda: len(self.answers) > before, f"the answer to {verb}")

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


class Measured:
    """What frames, log, answers and memory did in some seconds."""

    def __init__(self, rig: System, listener: Listener) -> None:
        self._rig = rig
        self._listener = listener
        self._began = time.monotonic()
        self._frames, self._answers = len(listener.frames), len(listener.answers)
        self._lines = self._log_lines()
        self._dropped = self._frames_dropped()
        self.memory_kib = rig.running.holds["rss_kib"]

    def _log_lines(self) -> int:
        return self._rig.log.read_text("utf-8").count("\n")

    def _frames_dropped(self) -> int:
        return sum(self._rig.subscriber.stats["cameras"]["front"]["dropped"].values())

    def end(self, limit: float) -> dict[str, Any]:
        """Sum up; frames later than `limit` seconds after their capture count as late."""
        seconds = time.monotonic() - self._began
        frames = self._listener.frames[self._frames :]
        if len(frames) < 2:
            raise RigError(f"{len(frames)} live frames came in {seconds:.0f} s")
        moments = [moment for moment, _ in frames]
        delays = sorted(delay for _, delay in frames)
        return {
            "seconds": round(seconds, 1),
            "frames": len(frames),
            "frames_dropped": self._frames_dropped() - self._dropped,
            "late": sum(delay > limit for delay in delays),
            "delay_median_ms": round(delays[len(delays) // 2] * 1e3, 2),
            "delay_longest_ms": round(delays[-1] * 1e3, 2),
            "longest_gap_ms": round(max(b - a for a, b in pairwise(moments)) * 1e3, 1),
            "log_lines": self._log_lines() - self._lines,
            "answers": len(self._listener.answers) - self._answers,
        }


def flooded(rig: System, listener: Listener, kind: str, seconds: float, limit: float) -> dict[str, Any]:
    """Flood it with one kind of command; return what happened."""
    measured = Measured(rig, listener)
    flooder = Flooder(rig.broker.port, DEVICE, kind, seconds)
    try:
        sent = flooder.wait(seconds + TIMEOUT)
    finally:
        flooder.close()
    outcome = measured.end(limit)
    most = measured.memory_kib + MOST_MEMORY_KIB
    after = settled(lambda: rig.running.holds["rss_kib"], most)
    memory = {"memory_before_kib": measured.memory_kib, "memory_after_kib": after}
    return {"messages_per_second": round(sent / outcome["seconds"])} | outcome | memory


def settled(memory: Callable[[], int], most: int) -> int:
    """Return the memory once it is no more than `most`, or when the time for that is over."""
    deadline = time.monotonic() + SETTLES_WITHIN
    while memory() > most and time.monotonic() < deadline:
        time.sleep(0.2)
    return memory()


def measure(seconds: float, kinds: list[str]) -> dict[str, Any]:
    """Measure without a flood, then with each kind."""
    keys = {"cameras": {"front": {"source": "synthetic://", "fps": RATE}}, "log": {"level": "info"}}
    with tempfile.TemporaryDirectory() as name:
        rig = System(Path(name), DEVICE, keys, broker=("allow_anonymous true",))
        listener = Listener(rig.broker.port)
        try:
            rig.keys["mqtt"] = {
                "port": rig.broker.port,
                "keepalive": 30,
            }  # no network between: it would be measured, too
            rig.write_config()
            rig.start_service().ready()
            rig.subscriber.next_frame("front").within(0)
            for _ in range(WARM_UP_COMMANDS):  # what a reload needs for the first time is no flood's
                listener.send("reload")
            wait_until(lambda: bool(rig.subscriber.stats), "stats")
            quiet = Measured(rig, listener)
            time.sleep(seconds)
            without = quiet.end(float("inf"))
            limit = without["delay_longest_ms"] / 1e3 + FRAME_TIME
            floods = {kind: flooded(rig, listener, kind, seconds, limit) for kind in kinds}
            took, code = rig.end()
            lost = rig.lost()  # only the last stats count every frame; before, one may be in work
        finally:
            listener.close()
            rig.close()
    return {
        "without_a_flood": without,
        "late_after_ms": round(limit * 1e3, 1),
        "floods": floods,
        "lost": lost,
        "exit_code": code,
        "seconds_to_stop": round(took, 2),
        "niceness_of_the_flooder": NICENESS,
        "load_average_of_the_last_minute": round(os.getloadavg()[0], 1),
    }


def verdict(outcome: dict[str, Any]) -> list[str]:
    """Return the failures, one sentence each."""
    wrong = [f"{count} lost: {what}" for what, count in outcome["lost"].items() if count]
    dropped = outcome["without_a_flood"]["frames_dropped"]
    for kind, one in outcome["floods"].items():
        grown = one["memory_after_kib"] - one["memory_before_kib"]
        failures = {
            f"only {one['frames']} live frames": one["frames"] < one["seconds"] * RATE / 2,
            f"{one['late']} frames late": one["late"] > 0,
            f"{one['frames_dropped']} frames dropped, without a flood {dropped}": one["frames_dropped"] > dropped,
            f"{grown} KiB more memory": grown > MOST_MEMORY_KIB,
            f"{one['log_lines']} lines of log": one["log_lines"] > one["seconds"] * MOST_LINES_PER_SECOND,
            f"{one['answers']} answers": one["answers"] > one["seconds"] * MOST_ANSWERS_PER_SECOND,
        }
        wrong += [f"{kind}: {what}" for what, failed in failures.items() if failed]
    return wrong


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each flood, and without one")
    parser.add_argument("--kind", action="append", default=[], choices=KINDS, help="only this kind; may be repeated")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/command-flood.json")
    arguments = parser.parse_args()
    try:
        outcome = measure(arguments.seconds, arguments.kind or list(KINDS))
    except (RigError, RuntimeError) as error:
        sys.exit(str(error))
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        chosen = "".join(f" --kind {kind!r}" for kind in arguments.kind)
        command = f"python reliability/command_flood.py --seconds {arguments.seconds:g}{chosen} --keep"
        write_json("command-flood", command, outcome)
    if wrong := verdict(outcome):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
