"""Missing acknowledgements: when live frames flow again, what the service reports meanwhile, what is lost.

The service runs at 30 frames per second. Between it and a real mosquitto lies a network that swallows the broker's
acknowledgements (PUBACK): 3 of them, 25, or all for 30 seconds. Then the broker itself is frozen for 20 and for 60
seconds. All keys of the link have their defaults. A subscriber accounts for every frame.

    python reliability/acknowledgements.py --keep          writes benchmarks/results/acknowledgements.json
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.result_file import write_json
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.status_tracker import LATE_AFTER
from rig.system import System
from rig.waiting import RigError, wait_until

DEFAULTS = MqttConfig()

KEYS = {
    "cameras": {"front": {"source": "synthetic://?scene=0.2", "fps": 30}},
    "state": {"min_frames": 1, "window_frames": 1},
    "mqtt": DEFAULTS.model_dump(include={"keepalive", "ack_timeout", "retry"}),
}
BACK_WITHIN = 20.0
"""Seconds that are promised until live frames flow again: from the deadline, or from the end of a longer fault."""

WATCHDOG = 3.0
SAID_WITHIN = LATE_AFTER + 1.0 + WATCHDOG / 2 + 1.0
"""Seconds until the status must report it: the service checks every second and notifies its manager every 1.5."""


class Fault(NamedTuple):
    """A fault, its duration in seconds (0: momentary), and how it ends."""

    name: str
    begin: Callable[[System], None]
    seconds: float
    end: Callable[[System], None]


def _nothing(_rig: System) -> None:
    """The fault needs no end."""


def _thaw(rig: System) -> None:
    rig.broker.thaw()
    wait_until(rig.subscriber.subscribed.is_set, "the subscriber")


FAULTS = (
    Fault("3 acknowledgements swallowed", lambda rig: rig.proxy.drop_packets(3), 0, _nothing),
    Fault("25 acknowledgements swallowed", lambda rig: rig.proxy.drop_packets(25), 0, _nothing),
    Fault("all swallowed for 30 s", lambda rig: rig.proxy.drop_packets(), 30, lambda rig: rig.proxy.pass_all()),
    Fault("broker frozen for 20 s", lambda rig: rig.broker.freeze(), 20, _thaw),
    Fault("broker frozen for 60 s", lambda rig: rig.broker.freeze(), 60, _thaw),
)


def play(rig: System, fault: Fault) -> dict[str, Any]:
    """Inject one fault; return the measured seconds."""
    manager = rig.running.manager
    with _live_frames(rig) as moments:
        began = time.monotonic()
        fault.begin(rig)
        wait_until(lambda: "has not acknowledged" in manager.status, f"the status to say so, not {manager.status!r}")
        said = time.monotonic() - began
        time.sleep(max(0.0, began + fault.seconds - time.monotonic()))
        fault.end(rig)
        due = max(time.monotonic(), began + DEFAULTS.ack_timeout)
        wait_until(lambda: bool(moments) and moments[-1] > due, "live frames")
        wait_until(lambda: " connected" in manager.status and "not connected" not in manager.status, "the status")
        status = time.monotonic() - due
        rig.settle()
        settled = time.monotonic() - due
        frames = [began, *moments]
    return {
        "said_after_s": round(said, 2),
        "live_frames_again_after_s": round(next(moment for moment in frames if moment > due) - due, 2),
        "status_connected_after_s": round(max(0.0, status), 2),
        "nothing_waits_after_s": round(max(0.0, settled), 2),
        "longest_gap_of_live_frames_s": round(max(after - before for before, after in pairwise(frames)), 2),
    }


@contextmanager
def _live_frames(rig: System) -> Iterator[list[float]]:
    """Collect the arrival times of live frames."""
    moments: list[float] = []
    rig.subscriber.watch = lambda _camera, moment: moments.append(moment)
    try:
        yield moments
    finally:
        rig.subscriber.watch = None


def run(folder: Path) -> dict[str, Any]:
    """Inject all faults into one service; return the result."""
    rig = System(folder, "acknowledgements", KEYS, WATCHDOG)
    try:
        rig.write_config()
        rig.start_service()
        wait_until(lambda: rig.subscriber.since["front/frame"] > 30, "the first frames")
        measured = {}
        for fault in FAULTS:
            measured[fault.name] = play(rig, fault)
            print(f"{fault.name}: {measured[fault.name]}", file=sys.stderr)
        _, code = rig.end()
        audit = rig.subscriber.audit
        return {
            "ack_timeout_s": DEFAULTS.ack_timeout,
            "promised_s": BACK_WITHIN,
            "faults": measured,
            "frames": sum(one.frames for one in audit.results(set()).values()),
            "historical": audit.historical,
            "repeated": audit.repeated,
            "contradictions": audit.contradictions,
            "lost": rig.lost(),
            "log_lines": rig.log.read_text("utf-8").splitlines(),
            "exit_code": code,
        }
    except RigError as error:
        sys.exit(f"{rig.log.read_text('utf-8')[-4000:]}\n{error}")
    finally:
        rig.close()


def verdict(outcome: dict[str, Any]) -> list[str]:
    """Return the failures, one sentence each."""
    wrong = [f"{count} lost: {what}" for what, count in outcome["lost"].items() if count]
    if outcome["contradictions"]:
        wrong.append(f"{outcome['contradictions']} messages came again as other ones")
    for name, one in outcome["faults"].items():
        if one["live_frames_again_after_s"] > BACK_WITHIN:
            wrong.append(f"{name}: live frames only after {one['live_frames_again_after_s']} s")
        if one["said_after_s"] > SAID_WITHIN:
            wrong.append(f"{name}: the status said so only after {one['said_after_s']} s")
    return wrong


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/acknowledgements.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder))
    if arguments.keep:
        write_json("acknowledgements", "python reliability/acknowledgements.py --keep", outcome)
    print(json.dumps(outcome, indent=2))
    if wrong := verdict(outcome):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
