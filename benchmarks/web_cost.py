"""What the live page, and collecting with it, costs the service.

    python benchmarks/web_cost.py page --keep         writes benchmarks/results/page-cost.json
    python benchmarks/web_cost.py collect --keep      writes benchmarks/results/collect-cost.json

The service runs in this process at 30 frames/s of 640x480 (drawn beforehand, so that drawing costs nothing), with the
shipped network and a broker that is away.

page: CPU time, the kernel's, by thread, with no page open, with one, with eight. Each page is a separate process that
does what the page's script does: it listens to the events and fetches a picture after each, at `web.max_fps` 10 in
total.

collect: how much later frames are classified while they are collected. Every few seconds collecting is switched on or
off, so that both see the same machine. Latency is from capture to the end of the work on the frame; `collect.max_fps`
is as low as its default, and as high as it goes.
"""

import argparse
import http.client
import itertools
import json
import logging
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from benchmarks.result_file import write_json
from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.pipeline import FrameResult, Identity, Pipeline
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from edgemeta.daemon.web.recent_frames import RecentFrames
from edgemeta.plugins.drawn.show import Show

RATE = 30
CLIP_FRAMES = 90
WARM_UP = 3.0
PAGES = (0, 1, 8)
PHASE = 3.0
"""Seconds of each turn."""

RATES = (2.0, 30.0)


def main() -> None:
    """Measure, print and, where asked to, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    page, collect, viewer = (commands.add_parser(name) for name in ("page", "collect", "view"))
    page.add_argument("--seconds", type=float, default=15.0, help="for each measurement (default 15)")
    collect.add_argument("--turns", type=int, default=10, help="turns with and without, for each rate (default 10)")
    for each in (page, collect):
        each.add_argument("--keep", action="store_true", help="write the result file")
    viewer.add_argument("port", type=int, help="be an open page of the service at this port; `page` starts them")
    arguments = parser.parse_args()
    if arguments.command == "view":
        view(arguments.port)
    elif arguments.command == "page":
        cost_of_pages(arguments.seconds, arguments.keep)
    else:
        cost_of_collecting(arguments.turns, arguments.keep)


def write_config(folder: Path, **sections: Any) -> Path:
    """The config of a service that reads the clip, with these sections beside."""
    content = {
        "cameras": {"front": {"source": str(folder / "clip.avi"), "fps": RATE, "loop": True}},
        "mqtt": {"host": "127.0.0.1", "port": 1},
        **sections,
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def write_clip(path: Path) -> None:
    """Write three seconds of drawn scenes, 640x480, Motion JPEG."""
    show = Show()
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (640, 480))
    for number in range(CLIP_FRAMES):
        writer.write(show.frame(number))
    writer.release()


def cost_of_pages(seconds: float, is_kept: bool) -> None:
    """CPU time by thread, for each number of open pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_clip(folder / "clip.avi")
        found: dict[str, Any] = {"off": measure(folder, False, 0, seconds)}
        for pages in PAGES:
            found[f"{pages} pages"] = measure(folder, True, pages, seconds)
        plan = prepare(folder / "config.yaml")
        hook = hook_ns(plan.loaded_models["front"])
        plan.loaded_models["front"].close()
    print(f"the worker's hook: {hook:.0f} ns per frame")
    for what, by_thread in found.items():
        page, worker = by_thread.get("page", 0.0), by_thread["worker"]
        share = page * RATE / 1e6
        print(f"{what:8}  page {page:7.1f} us/frame ({share:.1%} of a core)   worker {worker:7.1f} us/frame")
    if is_kept:
        values = {"rate": RATE, "hook_ns_per_frame": hook, "cpu_us_per_frame_by_thread": found}
        write_json("page-cost", "python benchmarks/web_cost.py page --keep", values)


def view(port: int) -> None:
    """Be an open page until killed."""
    events = http.client.HTTPConnection("127.0.0.1", port)
    events.request("GET", "/api/events")
    stream = events.getresponse()
    print("open", flush=True)
    while line := stream.readline():
        if line.startswith(b"data: "):
            json.loads(line[6:])
            picture = http.client.HTTPConnection("127.0.0.1", port)
            picture.request("GET", "/frame/front.jpg")
            picture.getresponse().read()
            picture.close()


def threads() -> dict[str, int]:
    """CPU time in nanoseconds of each of Python's threads so far, by name."""
    return {
        thread.name: int(Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text("ascii").split()[0])
        for thread in threading.enumerate()
    }


def spent(seconds: float, frames: Any) -> dict[str, float]:
    """Measure for so long: microseconds of CPU per classified frame, by thread."""
    before, first = threads(), frames()
    time.sleep(seconds)
    after, count = threads(), frames() - first
    return {name: round((ns - before.get(name, 0)) / 1000 / count, 1) for name, ns in after.items()}


class Port(logging.Handler):
    """Hears at which port the page is."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.known = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Look for the port in a line of the log."""
        if updates := re.search(r"page at http://127\.0\.0\.1:([0-9]+)/", record.getMessage()):
            self.number = int(updates[1])
            self.known.set()


def measure(folder: Path, enabled: bool, pages: int, seconds: float) -> dict[str, float]:
    """Run a service with so many open pages and measure it."""
    path = write_config(folder, web={"enabled": enabled, "port": 0}, data_folder=str(folder / "state"))
    port, log = Port(), logging.getLogger("edgemeta")
    log.setLevel(logging.INFO)
    log.addHandler(port)
    faults: list[BaseException] = []
    service = Service(prepare(path), faults.append)
    service.start()
    viewers = []
    if pages:
        assert port.known.wait(10)
    for _ in range(pages):
        command = [sys.executable, __file__, "view", str(port.number)]
        viewers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for viewer in viewers:
        assert viewer.stdout is not None
        assert viewer.stdout.readline() == "open\n"
    time.sleep(WARM_UP)
    found = spent(seconds, lambda: service.parts.health().frames)
    for viewer in viewers:
        viewer.kill()
        viewer.wait()
    service.stop(Deadline(2.0))
    log.removeHandler(port)
    assert faults == [], faults
    return found


def hook_ns(network: LoadedModel, calls: int = 200_000) -> float:
    """Nanoseconds that the worker spends per frame on telling the page's memory of it; the best of five rounds."""
    from edgemeta.daemon.config.config import Config
    from edgemeta.daemon.inference.readers.settings import settings_of
    from edgemeta.daemon.messages.records import Drops

    settings = settings_of(Config.model_validate({"cameras": {"front": {"source": "synthetic://"}}}), "front")
    pipeline = Pipeline(Identity("dev", "b" * 32), "front", network, settings, Clock())
    pixels = np.zeros((480, 640, 3), np.uint8)
    drops = Drops(superseded=0, failed=0, outbox=0, stopped=0)
    step = pipeline.classify(CapturedFrame("front", 1, Frame(pixels, time.monotonic_ns()), 0), drops, 0)
    seen, best = RecentFrames(["front"], keep_pixels=True), float("inf")
    stamps = itertools.count(0, 1_000_000_000 // RATE)
    for _ in range(5):
        frames = [CapturedFrame("front", 1, Frame(pixels, next(stamps)), 0) for _ in range(calls // 5)]
        began = time.perf_counter_ns()
        for captured in frames:
            seen.add(captured, step)
        best = min(best, (time.perf_counter_ns() - began) / len(frames))
    return round(best, 0)


def cost_of_collecting(turns: int, is_kept: bool) -> None:
    """Latency with and without collecting, for each rate of pictures."""
    logging.getLogger("edgemeta").addHandler(logging.NullHandler())
    with tempfile.TemporaryDirectory() as name:
        write_clip(Path(name) / "clip.avi")
        rows = [measure_collecting(Path(name), rate, turns) for rate in RATES]
    for row in rows:
        print(row)
    if is_kept:
        write_json("collect-cost", "python benchmarks/web_cost.py collect --keep", {"rate": RATE, "rows": rows})


def measure_collecting(folder: Path, pictures_per_second: float, turns: int) -> dict[str, Any]:
    """Run a service and return latencies in microseconds, without (False) and with (True) collecting."""
    path = write_config(
        folder,
        web={"enabled": True, "port": 0, "token": "0123456789abcdef"},
        data_folder=str(folder / f"state-{pictures_per_second:g}"),
        collect={"max_fps": pictures_per_second, "max_pictures": 100_000, "max_mb": 10_000},
    )
    errors: list[BaseException] = []
    service = Service(prepare(path), errors.append)
    assert service.parts.collection is not None
    collector = service.parts.collection.collector
    found: dict[bool, list[int]] = {False: [], True: []}
    phase: list[bool | None] = [None]

    def on_frame(captured: CapturedFrame, _: FrameResult) -> None:
        if phase[0] is not None:
            found[phase[0]].append(time.monotonic_ns() - captured.frame.captured_ns)

    service.parts.worker.frame_listeners.append(on_frame)
    service.start()
    time.sleep(WARM_UP)
    kept = skipped = 0
    for turn in range(2 * turns):
        collecting = turn % 2 == 1
        if collecting:
            collector.hold("front", "state", seconds=PHASE + 1)
        phase[0] = collecting
        time.sleep(PHASE)
        phase[0] = None
        collector.release("front", "state")
        time.sleep(0.3)
        hold = collector.state("front")
        if collecting and hold is not None:
            kept, skipped = kept + hold.kept, skipped + hold.skipped
    superseded = service.parts.snapshot().cameras["front"].counts.dropped.superseded
    service.stop(Deadline(2.0))
    assert errors == [], errors
    return {
        "pictures_per_second": pictures_per_second,
        "kept": kept,
        "skipped": skipped,
        "frames_superseded": superseded,
        **{name: _percentiles(found[collecting]) for name, collecting in (("without", False), ("with", True))},
    }


def _percentiles(values: list[int]) -> dict[str, float]:
    at = np.percentile(np.array(values) / 1000, [50, 99, 100])
    return {"frames": len(values)} | dict(zip(("p50_us", "p99_us", "max_us"), at.round().tolist(), strict=True))


if __name__ == "__main__":
    main()
