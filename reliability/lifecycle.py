"""The service from start to end, under a service manager that is this program: seconds to READY, to reload, to stop.

    chrt -r 5 python reliability/lifecycle.py --keep      writes benchmarks/results/lifecycle.json

chrt gives it priority over other work on the machine; on an idle machine it can be left out.

Synthetic camera, shipped network, fastest backend, a mosquitto on loopback. Then it is stopped while everything
hangs: a camera whose reads never return, and a broker that does not answer; its outbox file must hold what waits.
"""

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.result_file import write_json
from rig.system import System
from rig.waiting import RigError, wait_until

FRONT = {"front": {"source": "synthetic://"}}


def lives(rig: System, runs: int) -> dict[str, list[float]]:
    """Start, reload and stop repeatedly."""
    steps = ("start_to_ready", "start_to_ready_cpu", "start_to_first_frame", "reload", "stop")
    took: dict[str, list[float]] = {step: [] for step in steps}
    for _ in range(runs):
        rig.write_config(top_k=3)
        first = rig.subscriber.next_frame("front")
        service = rig.start_service()
        took["start_to_ready"].append(service.ready())
        took["start_to_ready_cpu"].append(service.cpu)
        took["start_to_first_frame"].append(first.within(service.began))
        seen = rig.subscriber.since["front/frame"]
        wait_until(lambda seen=seen: rig.subscriber.since["front/frame"] > seen + 10, "ten frames")  # type: ignore[misc]
        rig.write_config(top_k=1)
        took["reload"].append(service.reload()[0])
        took["stop"].append(stop(rig))
    return took


def stop(rig: System) -> float:
    """Return the seconds from SIGTERM to an end in order."""
    took, code = rig.running.stop()
    if code != 0:
        raise RigError(f"exit code {code}; the service's log:\n{rig.log.read_text('utf-8')}")
    return took


def stops_where_all_hangs(rig: System, runs: int) -> list[float]:
    """Stop it while a camera's thread and the broker hang; what the broker did not acknowledge must be on disk."""
    pipes = rig.folder / "pipes"
    pipes.mkdir()
    os.mkfifo(pipes / "1.png")
    rig.write_config(cameras=FRONT | {"hangs": {"source": str(pipes), "frame_timeout": 1.0}})
    took = []
    for _ in range(runs):
        service = rig.start_service()
        service.ready()
        rig.subscriber.next_frame("front").within(service.began)
        rig.broker.freeze()
        time.sleep(0.5)
        took.append(stop(rig))
        rig.broker.thaw()
        with closing(sqlite3.connect(rig.state / f"outbox-{rig.device}.sqlite3")) as database:
            ((count,),) = database.execute("SELECT count(*) FROM messages")
        if count < 10 or "may be lost" in rig.log.read_text("utf-8"):
            raise RigError(f"the outbox file holds {count} messages of 0.5 s without a broker")
    return took


def summed(seconds: list[float]) -> dict[str, float]:
    """Median and greatest."""
    return {"median_s": round(median(seconds), 3), "greatest_s": round(max(seconds), 3), "runs": len(seconds)}


def measure(runs: int) -> dict[str, Any]:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as name:
        rig = System(Path(name), "lifecycle", {"cameras": FRONT})
        try:
            took = lives(rig, runs)
            took["stop_where_camera_and_broker_hang"] = stops_where_all_hangs(rig, runs)
        finally:
            rig.close()
    return {step: summed(seconds) for step, seconds in took.items()}


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/lifecycle.json")
    arguments = parser.parse_args()
    try:
        outcome = measure(arguments.runs)
    except RigError as error:
        sys.exit(str(error))
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        busy = {"load_average_of_the_last_minute": os.getloadavg()[0]}
        write_json("lifecycle", "chrt -r 5 python reliability/lifecycle.py --keep", outcome | busy)


if __name__ == "__main__":
    main()
