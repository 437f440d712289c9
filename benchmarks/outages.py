"""Outages: no message may be lost while broker and network fail again and again and the service is killed.

The service runs at 30 frames per second. Between it and a real mosquitto lies a network that can be cut. A subscriber
beside the broker keeps every message. Outages of three kinds alternate: the broker is killed (SIGKILL) and comes back
with what it saved, the network is cut (reset, or silent), the broker is stopped and comes back empty. In between the
service itself is killed (SIGKILL), with and without a connection, and what its outbox file then holds is noted.

At the end, for each start (`boot`) of the service:
- frames: between the first number and the greatest seen, exactly those are missing that `dropped` accounts for;
- states: each change of `state` from one frame to the next has its state message;
- outbox: every message that was in the file when the service was killed has arrived.

    python benchmarks/outages.py --outages 100 --kills 20 --keep      writes benchmarks/results/outages.json
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

import paho.mqtt.client as paho
import yaml
from network_cut import Network
from paho.mqtt.enums import CallbackAPIVersion
from result_file import write_json
from soak import free_port, start_broker

PATIENCE = 60.0
"""Seconds after which something that must happen counts as not happening."""

RETAINED = ("availability", "info", "front/status", "front/state")


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.01)


class Witness:
    """A subscriber beside the broker. It is back before the network is whole, so it sees all that the broker takes."""

    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self.subscribed = threading.Event()
        self.frames: dict[str, dict[int, dict[str, Any]]] = {}
        self.states: dict[str, set[int]] = {}
        self.seen: set[tuple[str, int]] = set()
        self.repeated = self.historical = 0
        self.stats: list[dict[str, Any]] = []
        self.since: Counter[str] = Counter()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.05, 0.05)
        self._client.on_connect = lambda client, *_: client.subscribe("#", qos=0)
        self._client.on_subscribe = lambda *_: self.subscribed.set()
        self._client.on_disconnect = lambda *_: self.subscribed.clear()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        topic = message.topic.removeprefix("edgemeta/outages/")
        with self._lock:
            if message.retain:  # a copy that the broker kept
                return
            self.since[topic] += 1
            if topic == "availability":
                return
            content = json.loads(message.payload)
            if topic == "stats":
                self.stats.append(content)
            if topic not in ("front/frame", "front/state"):
                return
            name = content["boot"], content["id"]
            self.repeated += name in self.seen
            self.seen.add(name)
            self.historical += content["historical"]
            if topic == "front/frame":
                self.frames.setdefault(content["boot"], {}).setdefault(content["sequence"], content)
            else:
                self.states.setdefault(content["boot"], set()).add(content["sequence"])

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


@dataclass
class Verdict:
    """What is wrong with one start of the service, in numbers."""

    frames: int = 0
    lost_frames: int = 0
    lost_states: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


def judge(frames: dict[int, dict[str, Any]], states: set[int], killed: bool) -> Verdict:
    """Look for missing messages of one start. Only the newest state of a killed one may be missing."""
    numbers = sorted(frames)
    newest = frames[numbers[-1]]
    verdict = Verdict(frames=len(numbers), dropped=Counter(newest["dropped"]))
    verdict.lost_frames = abs(numbers[-1] - len(numbers) - sum(newest["dropped"].values()))
    state = None
    for number in numbers:
        changed, state = frames[number]["state"] != state, frames[number]["state"]
        if changed and number not in states and not (killed and number == numbers[-1]):
            verdict.lost_states += 1
    return verdict


class Rig:
    """Broker, network, service and witness."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.port = free_port()
        self.broker: subprocess.Popen[bytes] | None = None
        self.start_broker()
        self.network = Network(self.port)
        self.witness = Witness(self.port)
        until(self.witness.subscribed.is_set, "the subscriber")
        self.owed: set[tuple[str, int]] = set()
        self.kills: Counter[str] = Counter()
        self.killed_at: dict[str, datetime] = {}
        self.outages: Counter[str] = Counter()
        self.config = folder / "config.yaml"
        self.config.write_text(
            yaml.safe_dump(
                {
                    "device": "outages",
                    "cameras": {"front": {"source": "synthetic://?scene=0.2", "fps": 30}},
                    "state": {"agree": 1, "window": 1},
                    "mqtt": {
                        "host": "127.0.0.1",
                        "port": self.network.port,
                        "keepalive": 1,
                        "retry": {"first": 0.1, "cap": 0.3},
                        "outbox": {"folder": str(folder)},
                    },
                    "stats": {"period": 0.5},
                    "log": {"level": "warning"},
                }
            )
        )
        self.service = self.start_service()

    def start_broker(self) -> None:
        """Start mosquitto; it saves retained messages every second, and gives a subscriber all it has at once."""
        user = ["user root"] if os.geteuid() == 0 else []
        saved = ["persistence true", f"persistence_location {self.folder}/", "autosave_interval 1"]
        limits = ["max_inflight_messages 0", "max_queued_messages 0"]
        self.broker = start_broker(self.folder, self.port, *user, *saved, *limits)

    def start_service(self) -> "subprocess.Popen[bytes]":
        """Start the service; its warnings go to a file."""
        with (self.folder / "service.log").open("ab") as log:
            return subprocess.Popen(
                [str(Path(sys.executable).with_name("edgemeta")), "run", str(self.config)], stdout=log, stderr=log
            )

    def pause(self, shortest: float, longest: float) -> None:
        """Let some time go by."""
        time.sleep(self.random.uniform(shortest, longest))

    def outage(self, kind: str) -> None:
        """Make one outage of the broker, and see the service come back after it."""
        self.outages[kind] += 1
        if kind == "network cut":
            self._cut_network()
        else:
            self._restart_broker(signal.SIGKILL if kind == "broker killed" else signal.SIGTERM, kind)
        frames = self.witness.since["front/frame"]
        until(lambda: self.witness.since["front/frame"] > frames, "frames after the outage")
        if kind == "broker empty":
            until(lambda: all(self.witness.since[topic] for topic in RETAINED), "the retained topics")
        self.pause(0.2, 1.0)

    def _cut_network(self) -> None:
        if self.random.random() < 0.5:
            self.network.reset()
            self.pause(0.2, 2.0)
            self.network.mend(forget=True)
        else:
            self.network.silence()
            self.pause(0.5, 4.0)
            self.network.mend(forget=self.random.random() < 0.5)

    def _restart_broker(self, number: int, kind: str) -> None:
        assert self.broker is not None
        self.broker.send_signal(number)
        self.broker.wait(PATIENCE)
        self.network.reset()
        until(lambda: not self.witness.subscribed.is_set(), "the subscriber to notice")
        self.pause(0.1, 1.0)
        if kind == "broker empty":
            (self.folder / "mosquitto.db").unlink(missing_ok=True)
        self.start_broker()
        until(self.witness.subscribed.is_set, "the subscriber")
        self.witness.since.clear()
        self.network.mend(forget=True)

    def kill_service(self, connected: bool) -> None:
        """Kill the service, with or without a connection, note what its outbox holds, and start it again."""
        self.kills["connected" if connected else "without a broker"] += 1
        if not connected:
            self.network.reset()
            self.pause(0.5, 2.0)
        self.service.kill()
        self.killed_at[list(self.witness.frames)[-1]] = datetime.now(timezone.utc)
        self.service.wait(PATIENCE)
        self.note_outbox()
        self.network.mend(forget=True)
        frames = self.witness.since["front/frame"]
        boots = len(self.witness.frames)
        self.service = self.start_service()
        until(lambda: self.witness.since["front/frame"] > frames, "frames after the restart")
        until(lambda: len(self.witness.frames) > boots, "frames of the new start")
        self.pause(0.2, 1.0)

    def note_outbox(self) -> None:
        """Read a copy of what a killed service left on disk."""
        with tempfile.TemporaryDirectory() as copy:
            for part in self.folder.glob("outbox-outages.sqlite3*"):
                shutil.copy(part, copy)
            with closing(sqlite3.connect(Path(copy) / "outbox-outages.sqlite3")) as database:
                for (payload,) in database.execute("SELECT payload FROM messages"):
                    content = json.loads(payload)
                    self.owed.add((content["boot"], content["id"]))

    def end(self) -> int:
        """Wait until nothing waits, then stop the service; return its exit code."""
        begun = len(self.witness.stats)
        until(
            lambda: any(one["outbox"]["waiting"] < 3 for one in self.witness.stats[begun + 1 :]),
            "an outbox without late messages",
        )
        self.witness.since.clear()
        self.service.send_signal(signal.SIGTERM)
        code = self.service.wait(PATIENCE)
        until(lambda: self.witness.since["availability"] > 0, "`offline`")
        return code

    def close(self) -> None:
        """End everything, also after a fault."""
        self.witness.close()
        self.network.close()
        for process in (self.service, self.broker):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def run(outages: int, kills: int, seed: int, folder: Path) -> dict[str, Any]:
    """Make so many outages and kills in random order and judge the messages."""
    rig = Rig(folder, seed)
    begun = time.monotonic()
    try:
        until(lambda: rig.witness.since["front/frame"] > 5, "the first frames")
        kinds = ("broker killed", "network cut", "broker empty")
        events: list[tuple[str, bool]] = [(kinds[number % 3], False) for number in range(outages)]
        events += [("kill", number % 2 == 0) for number in range(kills)]
        rig.random.shuffle(events)
        for number, (kind, connected) in enumerate(events, 1):
            if kind == "kill":
                rig.kill_service(connected)
            else:
                rig.outage(kind)
            if number % 10 == 0:
                print(f"{number} of {len(events)}, {len(rig.witness.seen)} messages", file=sys.stderr, flush=True)
        code = rig.end()
        return result(rig, seed, code, time.monotonic() - begun)
    except SystemExit:
        print((folder / "service.log").read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        rig.close()


def result(rig: Rig, seed: int, code: int, seconds: float) -> dict[str, Any]:
    """Sum up."""
    witness = rig.witness
    last = witness.stats[-1]["boot"]
    verdicts = {
        boot: judge(frames, witness.states.get(boot, set()), killed=boot != last)
        for boot, frames in witness.frames.items()
    }
    counts = witness.stats[-1]["cameras"]["front"]
    cut_off = sorted(
        (moment - max(datetime.fromisoformat(one["captured"]) for one in witness.frames[boot].values())).total_seconds()
        for boot, moment in rig.killed_at.items()
    )
    dropped: Counter[str] = sum((one.dropped for one in verdicts.values()), Counter())
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "outages": dict(rig.outages),
        "kills_of_the_service": dict(rig.kills),
        "starts_seen": len(verdicts),
        "frames": sum(one.frames for one in verdicts.values()),
        "states": sum(len(states) for states in witness.states.values()),
        "historical": witness.historical,
        "repeated": witness.repeated,
        "dropped_by_reason": dict(dropped),
        "in_the_outbox_at_kills": len(rig.owed),
        "newest_message_at_a_kill_s": {"median": round(median(cut_off), 3), "greatest": round(cut_off[-1], 3)}
        if cut_off
        else None,
        "lost": {
            "frames": sum(one.lost_frames for one in verdicts.values()),
            "states": sum(one.lost_states for one in verdicts.values()),
            "from_the_outbox": len(rig.owed - witness.seen),
            "at_the_end": counts["captured"] - counts["published"] - sum(counts["dropped"].values()),
        },
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
        command = f"python benchmarks/outages.py --outages {arguments.outages} --kills {arguments.kills} --keep"
        write_json("outages", command, outcome)
    print(json.dumps(outcome, indent=2))
    if any(outcome["lost"].values()) or outcome["exit_code"]:
        sys.exit("messages are lost")


if __name__ == "__main__":
    main()
