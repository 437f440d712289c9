"""A camera that fails and returns: seconds until its first frame is published, for each kind of failure.

An RTSP camera in its own network namespace (needs root) is killed and restarted, frozen, or all packets between it and
the service are dropped. The length of a failure is random, up to twice the camera's `frame_timeout` and beyond it. The
service has the defaults of its config.

    python reliability/camera_return.py --keep      writes benchmarks/results/camera-return.json
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.result_file import write_json
from rig.camera import RtspCamera
from rig.namespace_network import FAR, NamespaceNetwork, in_own_namespace
from rig.system import System
from rig.waiting import RigError, wait_until

AWAY = (0.5, 12.0)
"""Seconds; a camera's `frame_timeout` is 5 s."""


def away(rig: System, leave: Callable[[], None], come: Callable[[], None], seconds: float) -> float:
    """Make the camera fail for the given time; return the seconds from its return to its first published frame."""
    seen = rig.subscriber.since["street/frame"]
    wait_until(lambda: rig.subscriber.since["street/frame"] > seen + 30, "a second of frames")
    leave()
    time.sleep(seconds)
    first = rig.subscriber.next_frame("street")
    come()
    return first.within(time.monotonic())


def measure(runs: int, seed: int, folder: Path) -> dict[str, Any]:
    """Repeat every kind of failure."""
    chance = random.Random(seed)
    network = NamespaceNetwork()
    camera = RtspCamera(FAR, prefix=network.prefix)
    rig = System(folder, "return", {"cameras": {"street": {"source": camera.address}}})
    try:
        camera.start()
        rig.write_config()
        rig.start_service().ready()
        ways = {
            "killed and started": (camera.kill, camera.start),
            "frozen": (camera.freeze, camera.thaw),
            "packets dropped": (network.drop, network.restore),
        }
        took: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for number in range(runs * len(ways)):
            way = list(ways)[number % len(ways)]
            seconds = chance.uniform(*AWAY)
            took[way].append((away(rig, *ways[way], seconds), seconds))
            print(f"{way}, {seconds:.1f} s away: back after {took[way][-1][0]:.2f} s", file=sys.stderr)
    finally:
        rig.close()
        camera.kill()
        network.close()
    return {way: summed(pairs) for way, pairs in took.items()}


def summed(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Median and greatest, and how long the camera had been away before the greatest."""
    greatest, seconds = max(pairs)
    return {
        "median_s": round(median(took for took, _ in pairs), 3),
        "greatest_s": round(greatest, 3),
        "away_before_the_greatest_s": round(seconds, 1),
        "runs": len(pairs),
    }


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20, help="of each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/camera-return.json")
    arguments = parser.parse_args()
    if not in_own_namespace():
        sys.exit("dropping packets needs root, and network namespaces with veth")
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = measure(arguments.runs, arguments.seed, Path(folder))
        except RigError as error:
            sys.exit(str(error))
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        write_json("camera-return", f"python reliability/camera_return.py --runs {arguments.runs} --keep", outcome)


if __name__ == "__main__":
    main()
