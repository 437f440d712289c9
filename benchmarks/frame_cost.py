"""CPU time that the service takes per frame, stage by stage: 30 frames/s of 640x480 from a file, on one core.

    python benchmarks/frame_cost.py --keep      writes benchmarks/results/frame-cost.json and .md

The service runs as users run it (`edgemeta run`, a mosquitto and a subscriber beside it, QoS 1), pinned to one core. It
runs twice in each round: first untouched, when the kernel says what each thread took; then with probes around the
worker's functions, which divide that thread's time among the stages. After each of the two runs a bare publisher
(`bare_publisher.py`) sends the same payloads on the same core to a broker with a subscriber: `ratio_to_bare` is what
the service takes to encode and publish a frame message, divided by what the bare publisher takes to publish it. CPU
time, not wall time: a thread that waits takes none. Every figure is the median over windows of one second, then over
the rounds. Without --clip, ffmpeg draws one.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.result_file import as_run, write_json, write_markdown
from edgemeta.cli.main import edgemeta
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import Pipeline
from edgemeta.daemon.inference.readers.labels import LabelMap
from edgemeta.daemon.inference.state_reporter import StateReporter
from edgemeta.daemon.inference.tracking.label import Smoother
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.plugins.frames import HostFrames
from rig.broker import Mosquitto

RATE = 30
WARM_UP = 5
"""Seconds before the measurement begins."""

LIMIT_US = 250
"""What preprocess, encode and publish may take together, in microseconds per frame."""

RATIO_LIMIT = 2.0
"""What encode and publish may take, as a multiple of what a bare publisher takes."""

STAGES: dict[str, tuple[tuple[type, str], ...]] = {
    "preprocess": ((HostFrames, "prepare"),),
    "inference": ((HostFrames, "run"), (LoadedModel, "run_frames")),
    "postprocess": ((LabelMap, "scores"), (LabelMap, "rank"), (Smoother, "add"), (StateReporter, "update")),
    "encode": ((Pipeline, "begin"), (Pipeline, "finish"), (Publisher, "encode")),
    "hand over": ((Publisher, "send"),),
    "counts": ((Worker, "_handle"),),
}
"""The worker's functions by stage, each without those in this table that it calls."""


@dataclass
class Probes:
    """Adds up the CPU time of the worker's functions, in ns; a call within another counts for its own stage only."""

    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))
    _inner: int = 0

    def attach(self) -> None:
        """Put a probe around every function."""
        for stage, functions in STAGES.items():
            for owner, name in functions:
                setattr(owner, name, self._around(stage, getattr(owner, name)))

    def _around(self, stage: str, function: Any) -> Any:
        @wraps(function)
        def probed(*arguments: Any, **keywords: Any) -> Any:
            entered = time.thread_time_ns()
            if threading.current_thread().name != "worker":  # other threads send now and then, too
                return function(*arguments, **keywords)
            outer, self._inner = self._inner, 0
            begun = time.thread_time_ns()
            try:
                return function(*arguments, **keywords)
            finally:
                self.spent[stage] += time.thread_time_ns() - begun - self._inner
                self._inner = outer + time.thread_time_ns() - entered  # with what the probe itself takes

        return probed


def threads() -> dict[str, int]:
    """CPU time of each thread of this process so far, in ns; threads of libraries are taken together."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    spent: dict[str, int] = {}
    for task in Path("/proc/self/task").iterdir():
        name = names.get(int(task.name), "libraries")
        spent[name] = spent.get(name, 0) + int((task / "schedstat").read_text("ascii").split()[0])
    return spent


def serve(config: Path, account: Path, seconds: int, probed: bool) -> None:
    """Be the service for so many seconds, and write what each second took, by thread and by stage."""
    probes = Probes()
    if probed:
        probes.attach()

    def watch() -> None:
        time.sleep(WARM_UP)
        moments = []
        for _ in range(seconds + 1):
            moments.append({"at": time.monotonic(), "threads": threads(), "stages": dict(probes.spent)})
            time.sleep(1)
        account.write_text(json.dumps(moments), "utf-8")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="benchmark", daemon=True).start()
    edgemeta(["run", str(config)])


@contextmanager
def broker_and_subscriber(folder: Path, heard: Path) -> Iterator[int]:
    """A broker on a port, and a subscriber that writes all frame messages to `heard`, a line for each."""
    broker = Mosquitto(folder)
    broker.start()
    with heard.open("wb") as lines:
        listen = ["mosquitto_sub", "-p", str(broker.port), "-q", "1", "-t", "edgemeta/+/+/frame"]
        subscriber = subprocess.Popen(listen, stdout=lines)
        try:
            yield broker.port
        finally:
            subscriber.kill()
            subscriber.wait()
            broker.stop()


def measure(folder: Path, clip: Path, core: int, seconds: int, probed: bool) -> dict[str, dict[str, float]]:
    """Run the service once; return microseconds per frame by thread and by stage, the median over the seconds.

    The frame messages are then in the file `payloads`.
    """
    config, account, payloads = folder / "config.yaml", folder / "account.json", folder / "payloads"
    with broker_and_subscriber(folder, payloads) as port:
        keys = {
            "device": "bench",
            "model": "resnet8-cifar10",
            "cameras": {"clip": {"source": str(clip), "loop": True, "fps": RATE}},
            "mqtt": {"host": "127.0.0.1", "port": port},
            "data_folder": str(folder),
            "log": {"level": "warning"},
        }
        config.write_text(yaml.safe_dump(keys))
        command = [sys.executable, __file__, "--serve", str(config), str(account), str(seconds), str(int(probed))]
        subprocess.run(["taskset", "-c", str(core), *command], check=True, timeout=seconds + 60)
    if payloads.read_bytes().count(b"\n") < seconds * RATE:
        sys.exit("fewer messages came than frames were measured")
    moments = json.loads(account.read_text("utf-8"))
    return {kind: {name: per_frame(moments, kind, name) for name in moments[0][kind]} for kind in ("threads", "stages")}


def bare(folder: Path, core: int, seconds: int) -> float:
    """Return the microseconds per message of a bare publisher of the payloads that the service sent last."""
    heard = folder / "heard"
    with broker_and_subscriber(folder, heard) as port:
        program = str(Path(__file__).with_name("bare_publisher.py"))
        command = [sys.executable, program, str(port), str(seconds), str(folder / "payloads")]
        done = subprocess.run(
            ["taskset", "-c", str(core), *command], check=True, timeout=seconds + 60, stdout=subprocess.PIPE
        )
    if heard.read_bytes().count(b"\n") < (seconds - 1) * RATE:
        sys.exit("the bare publisher's messages did not come")
    return median(json.loads(done.stdout))


def per_frame(moments: list[dict[str, Any]], kind: str, name: str) -> float:
    """Microseconds per frame of one thread or stage."""
    return median(
        (after[kind].get(name, 0) - before[kind][name]) / ((after["at"] - before["at"]) * RATE) / 1000
        for before, after in pairwise(moments)
    )


@dataclass(frozen=True)
class Round:
    """What was measured in turns: the service untouched and probed, and a bare publisher after each of them."""

    plain: dict[str, dict[str, float]]
    probed: dict[str, dict[str, float]]
    bare_us: float

    @property
    def rows(self) -> dict[str, float]:
        """Microseconds per frame by stage."""
        threads, stages = self.plain["threads"], self.probed["stages"]
        return {
            "read and decode": threads["camera clip"] + threads.get("libraries", 0),
            "preprocess": stages["preprocess"],
            "inference": stages["inference"],
            "scores, order, state": stages["postprocess"],
            "encode": stages["encode"],
            "publish": stages["hand over"] + threads["mqtt"],
            "counts, waiting for frames": threads["worker"] - sum(stages.values()) + stages["counts"],
            "outbox, stats and the like": sum(
                spent
                for name, spent in threads.items()
                if name not in ("camera clip", "libraries", "worker", "mqtt", "benchmark")
            ),
        }

    @property
    def total(self) -> float:
        """Microseconds per frame of all threads."""
        return sum(spent for name, spent in self.plain["threads"].items() if name != "benchmark")

    @property
    def ratio(self) -> float:
        """What encode and publish take, divided by what the bare publisher takes."""
        return (self.rows["encode"] + self.rows["publish"]) / self.bare_us


def run_round(folder: Path, clip: Path, core: int, seconds: int) -> Round:
    """Measure each once."""
    runs, bare_us = [], []
    for probed in (False, True):
        runs.append(measure(folder, clip, core, seconds, probed))
        bare_us.append(bare(folder, core, seconds))
    return Round(*runs, median(bare_us))


def summed(rounds: list[Round]) -> dict[str, Any]:
    """Return the medians over the rounds."""
    rows = {name: median(each.rows[name] for each in rounds) for name in rounds[0].rows}
    total = median(each.total for each in rounds)
    return {
        "us_per_frame": {name: round(spent, 1) for name, spent in rows.items()},
        "total_us_per_frame": round(total, 1),
        "beside_the_backend_us_per_frame": round(total - rows["inference"], 1),
        "share_of_the_core": round(total * RATE / 1e6, 4),
        "preprocess_encode_publish_us": round(rows["preprocess"] + rows["encode"] + rows["publish"], 1),
        "limit_us": LIMIT_US,
        "bare_publisher_us": round(median(each.bare_us for each in rounds), 1),
        "ratio_to_bare": round(median(each.ratio for each in rounds), 2),
        "ratio_limit": RATIO_LIMIT,
        "ratio_to_bare_by_round": [round(each.ratio, 2) for each in rounds],
        "probes_added_us": round(
            median(each.probed["threads"]["worker"] - each.plain["threads"]["worker"] for each in rounds), 1
        ),
        "load_average_of_the_last_minute": os.getloadavg()[0],
        "threads": {
            name: round(median(each.plain["threads"].get(name, 0.0) for each in rounds), 1)
            for name in rounds[0].plain["threads"]
        },
    }


def table(outcome: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = ["| stage | CPU per frame |", "|---|---|"]
    lines += [f"| {name} | {spent:.0f} µs |" for name, spent in outcome["us_per_frame"].items()]
    lines += [
        f"| **all threads, unprobed** | **{outcome['total_us_per_frame']:.0f} µs** |",
        "",
        f"Encode and publish take {outcome['ratio_to_bare']:.2f} times what a bare paho publisher of the same payloads "
        f"takes on the same core ({outcome['bare_publisher_us']:.0f} µs per message; wanted: at most {RATIO_LIMIT:g} "
        f"times). By round: {', '.join(f'{ratio:.2f}' for ratio in outcome['ratio_to_bare_by_round'])}.",
        "",
        f"Preprocess, encode and publish take {outcome['preprocess_encode_publish_us']:.0f} µs (wanted: at most "
        f"{LIMIT_US}), everything beside the backend {outcome['beside_the_backend_us_per_frame']:.0f} µs, the whole "
        f"service {outcome['share_of_the_core']:.1%} of the core. *Encode* makes the message and its JSON; *publish* "
        "is handing it to the link, and the link's thread: MQTT, TCP and the broker's acknowledgement. The probes "
        f"add {outcome['probes_added_us']:.0f} µs, most of it in no stage's row. Load average of the machine: "
        f"{outcome['load_average_of_the_last_minute']:.1f}; a fixed loop takes "
        f"{outcome['slowdown_of_a_fixed_loop']:.1f} times as long here as at best.",
    ]
    return "\n".join(lines)


def slowdown(core: int) -> float:
    """Tell how much longer than at best a fixed piece of arithmetic takes on a core, each time after a short sleep.

    1 on a core of one's own. More where a hypervisor, a neighbour on the same physical core or a slow clock is in play.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    took = []
    for _ in range(150):
        time.sleep(1 / RATE)
        begun = time.thread_time_ns()
        sum(range(20_000))
        took.append(time.thread_time_ns() - begun)
    os.sched_setaffinity(0, before)
    return round(median(took) / min(took), 2)


def draw(folder: Path) -> Path:
    """Return a clip of moving shapes and noise, 640x480, 20 s, H.264."""
    clip = folder / "clip.mp4"
    source = f"testsrc2=size=640x480:rate={RATE},noise=alls=8:allf=t"
    command = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", source, "-t", "20", "-pix_fmt", "yuv420p", str(clip)]
    subprocess.run(command, check=True)
    return clip


def main() -> None:
    """Read the command line, measure, write the result files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clip", type=Path, help="video file; default: one that ffmpeg draws")
    parser.add_argument("--core", type=int, default=1, help="the core to run on")
    parser.add_argument("--seconds", type=int, default=10, help="of each run; four runs make a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/frame-cost.json and .md")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        config, account, seconds, probed = arguments.serve
        serve(Path(config), Path(account), int(seconds), probed == "1")
    missing = [name for name in ("ffmpeg", "mosquitto_sub", "taskset") if shutil.which(name) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clip = arguments.clip.resolve() if arguments.clip else draw(folder)
        rounds = [run_round(folder, clip, arguments.core, arguments.seconds) for _ in range(arguments.rounds)]
    outcome = summed(rounds) | {"slowdown_of_a_fixed_loop": slowdown(arguments.core)}
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        command = as_run("frame_cost")
        write_json("frame-cost", command, outcome)
        write_markdown("frame-cost", command, table(outcome))


if __name__ == "__main__":
    main()
