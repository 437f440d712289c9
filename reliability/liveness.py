"""What the service says of a camera's picture: seconds until a fault is named, whether it stays so, and false alarms.

Faults are encoded by ffmpeg; frames are given to the checks of a camera at the times of their stream, faster than they
would come. For false alarms all clips of a folder are looped at the brightness of a night, as they are and encoded, and
pictures of them stand still but for a sensor's noise. At the end: what the checks cost for each frame of 1080p.

    EDGEMETA_DATA=DATA python reliability/liveness.py --minutes 120 --keep     writes benchmarks/results/liveness.json
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av.logging
import cv2
import numpy as np

from benchmarks.result_file import write_json
from edgemeta.daemon.capture.liveness import Liveness
from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.capture.sources.stream.decoder import Stream
from edgemeta.daemon.capture.sources.stream.failures import EndedError
from edgemeta.daemon.capture.sources.stream.messages import Request
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.runtime.clock import NS

PROMISED_S = 15.0
"""Within so many seconds a fault is named."""

FPS = 10
LIVE_S, FAULTY_S = 12, 22
"""Seconds of a clip before its last picture stays, and of a fault."""
SECONDS_OF_CLIP = 45
CONFIG = CameraConfig(source="rtsp://camera")
CHANCE = np.random.default_rng(20261127)
NIGHTS = {"a fifth": 0.2, "a fifteenth": 0.07}
"""Parts of the brightness."""

QUIET = 150
"""Pictures of noise, which are repeated."""

NOISE = (0.6, 1.5)
"""Standard deviations of a sensor's noise, in levels."""

X264 = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "20", "-pix_fmt", "yuv420p"]
# One thread: with several, rate control depends on which is first, and a run is like no other.
X265 = [
    "-c:v",
    "libx265",
    "-preset",
    "ultrafast",
    "-x265-params",
    "log-level=none:keyint=20:frame-threads=1:pools=none",
]


def rate(kilobits: int) -> list[str]:
    """A constant bit rate, as cameras have it."""
    return ["-b:v", f"{kilobits}k", "-maxrate", f"{kilobits}k", "-bufsize", f"{2 * kilobits}k"]


ENCODERS = {
    "x264, 300 kbit/s": [*X264, *rate(300)],
    "x264, 1500 kbit/s": [*X264, *rate(1500)],
    "x265, 300 kbit/s": [*X265, *rate(300)],
    "MPEG-4, 600 kbit/s": ["-c:v", "mpeg4", "-g", "20", "-b:v", "600k"],
    "MJPEG": ["-c:v", "mjpeg", "-q:v", "8", "-pix_fmt", "yuvj420p"],
}


def clip(path: Path, fps: float = FPS, seconds: float = SECONDS_OF_CLIP) -> list[Pixels]:
    """The first seconds of a clip at another frame rate."""
    capture, pictures = cv2.VideoCapture(str(path)), []
    own = capture.get(cv2.CAP_PROP_FPS)
    own = own if 1 < own < 100 else 25.0
    read = 0
    while len(pictures) < seconds * fps and capture.grab():
        if read >= len(pictures) * own / fps:
            pictures.append(np.asarray(capture.retrieve()[1], np.uint8))
        read += 1
    return pictures


def encoded(pictures: Iterable[Pixels], options: list[str]) -> list[Pixels]:
    """Pictures of one size after an encoder and a decoder."""
    pictures = list(pictures)
    height, width, _ = pictures[0].shape
    raw = ["-f", "rawvideo", "-pix_fmt", "bgr24"]
    ffmpeg = ["ffmpeg", "-v", "error"]
    encoder = [*ffmpeg, *raw, "-s", f"{width}x{height}", "-r", str(FPS), "-i", "-", *options, "-f", "matroska", "-"]
    sent = b"".join(picture.tobytes() for picture in pictures)
    stream = subprocess.run(encoder, input=sent, stdout=subprocess.PIPE, check=True).stdout
    shown = subprocess.run([*ffmpeg, "-i", "-", *raw, "-"], input=stream, stdout=subprocess.PIPE, check=True).stdout
    return list(np.frombuffer(shown, np.uint8).reshape(-1, height, width, 3))


def with_noise(pictures: Iterable[Pixels], sigma: float) -> Iterator[Pixels]:
    """Pictures of one size with a sensor's noise, drawn anew for each from a large field."""
    field = np.zeros((0, 0, 3))
    for picture in pictures:
        height, width, _ = picture.shape
        if not field.size:
            field = CHANCE.normal(0, sigma, (height + 64, width + 64, 3)).astype(np.float32)
        top, left = CHANCE.integers(0, 64, 2)
        turned = field[top : top + height, left : left + width] * CHANCE.choice((-1, 1)) + 0.5
        yield np.clip(picture + turned, 0, 255).astype(np.uint8)


def at_night(pictures: Iterable[Pixels], part: float) -> list[Pixels]:
    """Pictures at a part of their brightness."""
    return [cv2.convertScaleAbs(picture, alpha=part).astype(np.uint8) for picture in pictures]


def with_clock(pictures: Iterable[Pixels]) -> list[Pixels]:
    """Pictures with a running clock drawn over them."""
    pictures = [picture.copy() for picture in pictures]
    for number, each in enumerate(pictures):
        text = f"2026-11-26 23:{number // FPS // 60:02}:{number // FPS % 60:02}"
        cv2.putText(each, text, (10, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (255, 255, 255), 2)
    return pictures


@dataclass
class Said:
    """What a camera's checks said of its frames. first_s: when something else than `running` without a reason."""

    first_s: float | None = None
    state: str = "running"
    changes: int = 0
    other_s: float = 0.0


def said_of(frames: Iterable[Frame], fault_s: float = 0.0) -> Said:
    """Give frames to the checks of a camera. fault_s: when the fault begins."""
    liveness, said = Liveness(CONFIG), Said()
    before, since, began = ("running", None), 0, None
    for frame in frames:
        now = frame.captured_ns
        began = now if began is None else began
        _, finding = liveness.look(frame)
        judged = finding.state.value, finding.reason
        if before != ("running", None):
            said.other_s += (now - since) / NS
        since = now
        if judged == before:
            continue
        said.changes += 1
        if said.first_s is None:
            said.first_s, said.state = (
                round((now - began) / NS - fault_s, 1),
                judged[1] if judged[0] == "running" else judged[0],
            )
        before = judged
    return said


def in_time(pictures: Iterable[Pixels]) -> Iterator[Frame]:
    """Frames at the rate of the clips."""
    for number, picture in enumerate(pictures):
        yield Frame(picture, number * NS // FPS)


def too_slow(picture: Pixels, part: float) -> Iterator[Frame]:
    """A link that is slower than its stream; the picture lives."""
    for number, frame in enumerate(in_time(with_noise([picture] * FAULTY_S * FPS, 2.0))):
        yield frame._replace(captured_ns=round(number * NS / FPS / part), stream_ns=number * NS // FPS)


def damaged(path: Path) -> Iterator[Frame]:
    """The frames of a damaged stream, as the process of a stream decodes them, at 25 a second."""
    av.logging.set_level(av.logging.WARNING)
    with av.logging.Capture() as log:
        stream = Stream(Request(str(path), "", 0, 5.0), log)
        number = 0
        with suppress(EndedError):
            for packet in stream.packets():
                for picture in stream.decode(packet):
                    log.clear()
                    yield Frame(picture.frame.to_ndarray(format="bgr24"), number * NS // 25, damaged=stream.damaged)
                    number += 1


def frozen(clips: dict[str, list[Pixels]]) -> Iterator[tuple[str, Callable[[], Iterable[Frame]]]]:
    """Clips whose last picture stays while the encoder goes on, by name."""
    for name, pictures in clips.items():
        for light, shown in (("day", pictures), ("night", at_night(pictures, 0.15))):
            stays = [*shown, *[shown[-1]] * FAULTY_S * FPS]
            for encoder, options in ENCODERS.items():
                yield (
                    f"{name}, {light}, {encoder}",
                    lambda stays=stays, options=options: in_time(encoded(stays, options)),
                )
        clock = with_clock([*pictures, *[pictures[-1]] * FAULTY_S * FPS])
        for encoder in ("x264, 300 kbit/s", "x264, 1500 kbit/s"):
            yield (
                f"{name} with a clock, {encoder}",
                lambda clock=clock, encoder=encoder: in_time(encoded(clock, ENCODERS[encoder])),
            )


def faults(one: Pixels, folder: Path) -> dict[str, Callable[[], Iterable[Frame]]]:
    """Frames of the other faults by name; they begin with the stream."""
    found: dict[str, Callable[[], Iterable[Frame]]] = {}
    found["black"] = lambda: in_time([np.zeros_like(one)] * FAULTY_S * FPS)
    found["black with noise"] = lambda: in_time(with_noise([np.full_like(one, 5)] * FAULTY_S * FPS, 2.0))
    found["a link that is 15 % too slow"] = lambda: too_slow(one, 0.85)
    for path in folder.glob("*damaged.h264"):
        found[f"slices of H.264 are lost, {path.stem}"] = lambda path=path: damaged(path)
    return found


def nights(folder: Path) -> Iterator[tuple[str, Callable[[], Iterable[Pixels]]]]:
    """Clips and quiet pictures at night, by name; each is looped as long as wanted."""
    for path in sorted(folder.iterdir()):
        if path.suffix not in (".mp4", ".avi", ".h264"):
            continue
        pictures = clip(path)
        for light, part in NIGHTS.items():
            dark = at_night(pictures, part)
            yield f"{path.stem}, {light}", lambda dark=dark: dark
            yield f"{path.stem}, {light}, x264", lambda dark=dark: encoded(dark, ENCODERS["x264, 300 kbit/s"])
            if path.stem.endswith(("damaged", "lossy")):
                continue
            for sigma in NOISE:
                quiet = f"{path.stem}, {light}, quiet, noise {sigma:g}"
                yield quiet, lambda dark=dark, sigma=sigma: list(with_noise([dark[0]] * QUIET, sigma))
                yield (
                    f"{quiet}, x264",
                    lambda dark=dark, sigma=sigma: encoded(with_noise([dark[0]] * QUIET, sigma), [*X264, *rate(600)]),
                )


def looped(pictures: list[Pixels], seconds: float) -> Iterator[Pixels]:
    """Pictures again and again, for so many seconds."""
    for number in range(round(seconds * FPS)):
        yield pictures[number % len(pictures)]


def cost_us() -> dict[str, float]:
    """Microseconds for a frame of 1080p at 25 frames/s: mean, and of those that are sampled."""
    pictures = [CHANCE.integers(0, 255, (1080, 1920, 3), np.uint8) for _ in range(4)]
    liveness, took = Liveness(CONFIG), []
    for number in range(1000):
        frame = Frame(pictures[number % 4], number * NS // 25, number * NS // 25)
        began = time.perf_counter_ns()
        liveness.look(frame)
        took.append((time.perf_counter_ns() - began) / 1000)
    sampled = sorted(took[500:])[-80:]
    return {"mean": round(sum(took[500:]) / 500, 1), "sampled_median": round(sampled[40], 1)}


def measure(minutes: float, folder: Path) -> dict[str, Any]:
    """All of it."""
    paths = [
        path for path in sorted(folder.glob("*.*")) if path.suffix in (".mp4", ".avi") and "lossy" not in path.stem
    ]
    clips = {path.stem: clip(path, seconds=LIVE_S) for path in paths}
    named: dict[str, Any] = {}
    begins = [(frozen(clips), LIVE_S), (faults(next(iter(clips.values()))[0], folder).items(), 0)]
    for kind, fault_s in begins:
        for name, frames in kind:
            said = said_of(frames(), fault_s)
            named[name] = {"says": said.state, "after_s": said.first_s, "stays": said.changes == 1}
            print(f"{name}: {named[name]}", file=sys.stderr)
    quiet: dict[str, Any] = {}
    scenes = list(nights(folder))
    for name, pictures in scenes:
        said = said_of(in_time(looped(list(pictures()), minutes * 60 / len(scenes))))
        quiet[name] = {"alarms": said.changes, "alarm_s": round(said.other_s, 1)}
        print(f"{name}: {quiet[name]}", file=sys.stderr)
    return {
        "promised_s": PROMISED_S,
        "faults": named,
        "minutes_of_night": minutes,
        "scenes": len(quiet),
        "false_alarms": {name: each for name, each in quiet.items() if each["alarms"]},
        "us_per_frame_1080p_25fps": cost_us(),
    }


def main() -> int:
    """Measure, print, and keep on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120.0, help="minutes of night, all scenes together")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("EDGEMETA_DATA", "../shared/data")))
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/liveness.json")
    arguments = parser.parse_args()
    measured = measure(arguments.minutes, arguments.data / "video")
    if arguments.keep:
        write_json("liveness", f"python reliability/liveness.py --minutes {arguments.minutes:g} --keep", measured)
    else:
        print(json.dumps(measured, indent=2))
    late = [
        name for name, each in measured["faults"].items() if each["after_s"] is None or each["after_s"] > PROMISED_S
    ]
    return int(bool(late or measured["false_alarms"]))


if __name__ == "__main__":
    sys.exit(main())
