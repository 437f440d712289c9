"""Many cameras on one device: frames that are processed, the age of pictures, memory, processor time, threads.

    python reliability/many_cameras.py --model yolox-nano.safetensors --clip vtest_480x360.avi --keep

writes benchmarks/results/many-cameras.{json,md}: all of SERIES, or the one run of --cameras, --size and --fps.

All cameras show one clip, encoded once (H.264 over RTSP). Its frames have the time at which they were made drawn into
them as a row of black and white squares, so the age of a picture is read from the picture itself, when a subscriber
receives it as a snapshot (once a second of each camera): it contains encoding, network, decoding, the network's time,
JPEG and MQTT. Memory is the sum of the service's and its processes' proportional shares (PSS).
"""

import argparse
import contextlib
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import paho.mqtt.client as paho
from numpy.typing import NDArray
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.result_file import RESULTS, GrowingResult
from edgemeta.model.file import load
from rig.camera import RtspCamera
from rig.system import System
from rig.waiting import RigError, wait_until

DEVICE, COMMAND = "many", "python reliability/many_cameras.py --model yolox-nano.safetensors --clip vtest_480x360.avi"
BITS = 24
"""Of the milliseconds that are drawn: they repeat after 4.6 hours."""
SQUARE = 16
"""Part of the picture's height that a row of squares takes."""
SERIES = ((1, "1920x1080", 15), (16, "1920x1080", 15), (16, "640x360", 5))
"""Cameras, size and frames per second of each run; what a camera takes is the difference of two."""
SETTLES_S = 20.0
"""After all cameras run, before anything counts."""


def stamped(frame: NDArray[np.uint8], milliseconds: int) -> NDArray[np.uint8]:
    """A gray frame [H, W] with a time drawn into its top: BITS squares, the highest bit first."""
    bits = (milliseconds >> np.arange(BITS)[::-1]) & 1
    width = frame.shape[1] // BITS
    frame[: frame.shape[0] // SQUARE, : width * BITS] = np.repeat(np.where(bits, 235, 16), width)
    return frame


def time_of(picture: NDArray[np.uint8]) -> int:
    """The milliseconds that are drawn into a picture [H, W]."""
    width = picture.shape[1] // BITS
    row = picture[picture.shape[0] // SQUARE // 2, width // 2 :: width][:BITS]
    return int((row > 125) @ (1 << np.arange(BITS)[::-1]))


def age_ms(milliseconds: int) -> int:
    """How long ago a drawn time was."""
    return (time.monotonic_ns() // 1_000_000 - milliseconds) % (1 << BITS)


class Clip:
    """Writes the frames of a clip to a camera at its rate until closed."""

    def __init__(self, path: Path, size: tuple[int, int], fps: int, camera: RtspCamera) -> None:
        capture, self._frames = cv2.VideoCapture(str(path)), []
        while len(self._frames) < 100 and capture.grab():
            gray = cv2.cvtColor(capture.retrieve()[1], cv2.COLOR_BGR2GRAY)
            self._frames.append(np.asarray(cv2.resize(gray, size), np.uint8))
        assert camera.process is not None
        assert camera.process.stdin is not None
        self._out = camera.process.stdin
        self._fps, self._ended = fps, threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        number, begun = 0, time.monotonic()
        with contextlib.suppress(BrokenPipeError, ValueError):
            while not self._ended.wait(max(0.0, begun + number / self._fps - time.monotonic())):
                frame = self._frames[number % len(self._frames)].copy()
                self._out.write(stamped(frame, time.monotonic_ns() // 1_000_000 % (1 << BITS)).tobytes())
                self._out.flush()
                number += 1

    def close(self) -> None:
        """End the writing."""
        self._ended.set()


class Sent:
    """Counts the packets that the camera sends, by a client that decodes nothing.

    A busy machine makes the camera, too, send fewer frames than it is given, and those are not the service's loss.
    """

    def __init__(self, address: str) -> None:
        self.packets, self._ended = 0, threading.Event()
        self._container = av.open(address, timeout=60, options={"rtsp_transport": "tcp"})
        self._thread = threading.Thread(target=self._count)
        self._thread.start()

    def _count(self) -> None:
        for _ in self._container.demux(video=0):
            self.packets += 1
            if self._ended.is_set():
                break
        self._container.close()

    def close(self) -> None:
        """End the counting, with the next packet."""
        self._ended.set()
        self._thread.join()


class Watch:
    """Counts frame messages of each camera, and takes the age of snapshots, from `begin` on."""

    def __init__(self, port: int) -> None:
        self.frames: dict[str, int] = defaultdict(int)
        self.ages: list[int] = []
        self.overloaded: list[float] = []
        self._base = f"edgemeta/{DEVICE}/"
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(
            [(self._base + topic, 0) for topic in ("+/frame", "+/snapshot", "info")]
        )
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def begin(self) -> None:
        """Forget what came before."""
        self.frames.clear()
        self.ages.clear()

    def _take(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        camera, _, kind = message.topic.removeprefix(self._base).partition("/")
        if kind == "frame":
            self.frames[camera] += 1
        elif kind == "snapshot":
            picture = cv2.imdecode(np.frombuffer(message.payload, np.uint8), cv2.IMREAD_GRAYSCALE)
            self.ages.append(age_ms(time_of(np.asarray(picture, np.uint8))))
        elif json.loads(message.payload)["overloaded"]:
            self.overloaded.append(time.monotonic())

    def close(self) -> None:
        """Disconnect."""
        self._client.loop_stop()
        self._client.disconnect()


def processes(parent: int) -> Iterator[int]:
    """A process and all below it."""
    yield parent
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from processes(int(child))


def used(parent: int) -> dict[str, float]:
    """Megabytes (PSS), threads and seconds of processor time of a process and all below it."""
    memory, threads, seconds = 0, 0, 0.0
    for process in processes(parent):
        with contextlib.suppress(OSError):  # it has ended
            folder = Path(f"/proc/{process}")
            lines = dict(line.split(":") for line in (folder / "smaps_rollup").read_text().splitlines()[1:])
            memory += int(lines["Pss"].split()[0])
            threads += len(list((folder / "task").iterdir()))
            seconds += sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13])) / 100
    return {"megabytes": memory / 1000, "threads": threads, "seconds": seconds}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run the service with the cameras, and measure for some seconds."""
    width, height = map(int, options.size.split("x"))
    camera = RtspCamera(rate=options.fps, drawn=False)
    names = [f"camera-{number}" for number in range(options.cameras)]
    keys = {"model": str(options.model.resolve()), "snapshots": {"interval": 1.0}, "stats": {"interval": 5.0}}
    keys |= {"cameras": {name: {"source": camera.address} for name in names}, "mqtt": {"keepalive": 30}}
    keys |= {"backend": {"options": {"threads": options.threads}}} if options.threads else {}
    rig = System(folder, DEVICE, keys)
    clip = watch = sent = None
    try:
        camera.start(width, height)
        clip = Clip(options.clip, (width, height), options.fps, camera)
        watch = Watch(rig.broker.port)
        rig.write_config()
        begun = time.monotonic()
        service = rig.start_service()
        try:
            wait_until(lambda: len(watch.frames) >= options.cameras * options.least, "frames of the cameras", 120)
        except RigError as error:
            raise SystemExit(f"{error}; the service's log:\n{rig.log.read_text('utf-8')[-4000:]}") from None
        sent = Sent(camera.address)
        time.sleep(SETTLES_S)
        watch.begin()
        sent_before = sent.packets
        before, at = used(service.process.pid), time.monotonic()
        time.sleep(options.seconds)
        after, frames, ages = used(service.process.pid), dict(watch.frames), np.array(watch.ages)
        lasted, packets = time.monotonic() - at, sent.packets - sent_before
        if not len(ages):
            raise SystemExit(
                f"no snapshot arrived in {lasted:.0f} s; the service's log:\n{rig.log.read_text('utf-8')[-4000:]}"
            )
    finally:
        for part in (watch, sent, clip, rig):
            if part is not None:
                part.close()
        camera.kill()
    counts = [frames.get(name, 0) for name in names]
    return {
        "cameras": options.cameras,
        "size": options.size,
        "fps": options.fps,
        "model": load(options.model).digest[:12],
        "frames_due": round(options.cameras * options.fps * lasted),
        "frames_sent": options.cameras * packets,
        "frames": sum(counts),
        "least_of_most": round(min(counts) / max(1, max(counts)), 2),
        "age_ms": {name: round(float(np.percentile(ages, share))) for name, share in (("p50", 50), ("p99", 99))},
        "ages": len(ages),
        "megabytes": round(after["megabytes"]),
        "threads": int(after["threads"]),
        "cores": round((after["seconds"] - before["seconds"]) / lasted, 2),
        "overloaded_after_s": round(watch.overloaded[0] - begun, 1) if watch.overloaded else None,
    }


def table(runs: list[dict[str, Any]]) -> str:
    """Markdown of all runs."""
    lines = [
        "| cameras | due | sent | processed | least / most | age p50, p99 | memory | threads | cores | overloaded |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        ages, after = run["age_ms"], run["overloaded_after_s"]
        lines.append(
            f"| {run['cameras']} x {run['size']} at {run['fps']} | {run['frames_due']} "
            f"| {run.get('frames_sent', '-')} | {run['frames']} "
            f"| {run['least_of_most']} | {ages['p50']}, {ages['p99']} ms | {run['megabytes']} MB | {run['threads']} "
            f"| {run['cores']} | {'no' if after is None else f'after {after:g} s'} |"
        )
    of_one = {(run["size"], run["fps"]): run["megabytes"] for run in runs if run["cameras"] == 1}
    for run in runs:
        base = of_one.get((run["size"], run["fps"]))
        if base is not None and run["cameras"] > 1:
            each = (run["megabytes"] - base) / (run["cameras"] - 1)
            lines += ["", f"A further camera of {run['size']} at {run['fps']} takes {each:.0f} MB."]
    return "\n".join(lines)


def main() -> None:
    """Read the command line, measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--clip", type=Path, required=True)
    parser.add_argument("--cameras", type=int)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--fps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int, help="of the backend; default: its own")
    parser.add_argument("--least", type=float, default=1.0, help="part of the cameras that must run before it begins")
    parser.add_argument("--keep", action="store_true", help="write the result files")
    options = parser.parse_args()
    series = SERIES if options.cameras is None else ((options.cameras, options.size, options.fps),)
    keys = ("cameras", "size", "fps")
    for options.cameras, options.size, options.fps in series:
        with tempfile.TemporaryDirectory() as name:
            run = measure(options, Path(name))
            print(json.dumps(run), flush=True)
            results = RESULTS if options.keep else Path(name)
            written = GrowingResult(
                "many-cameras", COMMAND, results, {}, keys, lambda run: (run["size"], run["cameras"])
            )
            written.add(run, {}, table)


if __name__ == "__main__":
    main()
