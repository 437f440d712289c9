"""Model swaps while frames flow at 30 per second: resources that stay allocated, frames that are late or lost.

    python reliability/swaps.py --keep       writes benchmarks/results/swaps.json

A service with a real broker and a subscriber swaps models by command, every second time to a bad model: each kind of
failure in turn, from an unsigned file to an error on a live frame after the replacement. The resources of the process
are counted after a warm-up, and again after 200 swaps. All of it runs once more with a planted leak, which must be
detected: otherwise the check would prove nothing.

A frame is lost if its number is missing, and late if its time from capture to the subscriber exceeds the median by more
than one frame time (33 ms). The same is counted without swaps, for comparison with the machine's own noise.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import cv2
import paho.mqtt.client as paho
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.result_file import write_json
from edgemeta.daemon.capture.source import SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.model.file import load, save
from edgemeta.model.graph import Model
from edgemeta.model.signature import make_key, sign, signature_of
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find
from rig.broker import Mosquitto
from rig.faulty_backend import LATE, NAME, install
from rig.service_manager import ManagedService
from rig.waiting import RigError, wait_until

RATE = 30
FRAME_TIME_MS = 1000 / RATE
PICTURES = 30
LOOKS = 80
SWAPS, WARM_UP = 200, 48
LEAK = 16_384
"""Bytes that the planted leak keeps of every session."""

GREATEST_GROWTH_KIB = 1024
"""Growth over the swaps beyond which they count as leaking."""

ROUND = 20
"""Swaps after which frames are watched for as long again without any: what the machine itself does, at that time."""

DEVICE = "swaps"

BAD: dict[str, Callable[["Models", str], None]] = {
    "not signed": lambda models, name: models.write(name, signed=False),
    "not a model": lambda models, name: models.write_bytes(name, b"no model at all"),
    "cut": lambda models, name: models.write_bytes(name, models.bytes_of("good-0")[:60_000]),
    "fails its self-test": lambda models, name: models.write(name, change=_with_wrong_self_test),
    "names other labels": lambda models, name: models.write(name, change=_with_rotated_labels),
    "fails after the exchange": lambda models, name: models.write(name, change=_that_fails_late),
}
"""The ways in which a model is bad, and how each is written."""


def _with_wrong_self_test(model: Model) -> Model:
    assert model.self_test is not None
    return replace(model, self_test=replace(model.self_test, expected=model.self_test.expected[::-1]))


def _with_rotated_labels(model: Model) -> Model:
    labels = model.labels
    assert isinstance(model.task, Classification)
    return replace(model, task=replace(model.task, labels=(*labels[1:], labels[0])))


def _that_fails_late(model: Model) -> Model:
    return replace(model, name=f"bad{LATE}")


class Models:
    """The folder that commands may choose from: two good models, and one that is bad in each way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "models"
        self.folder.mkdir()
        self._private = folder / "maker.pem"
        self.public = make_key(self._private)
        self._model = load(find("resnet8-cifar10"))
        for number in range(2):
            self.write(f"good-{number}")
        for number, way in enumerate(BAD):
            BAD[way](self, f"bad-{number}")

    def write(self, name: str, change: Callable[[Model], Model] = lambda model: model, signed: bool = True) -> None:
        """Write the shipped network under another name, changed, and sign it."""
        path = self.folder / f"{name}.safetensors"
        save(change(replace(self._model, name=name)), path)
        self._sign(path, signed)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a signed file that may be none of a model."""
        path = self.folder / f"{name}.safetensors"
        path.write_bytes(content)
        self._sign(path, signed=True)

    def bytes_of(self, name: str) -> bytes:
        """The content of a file written before."""
        return (self.folder / f"{name}.safetensors").read_bytes()

    def _sign(self, path: Path, signed: bool) -> None:
        signature_of(path).unlink(missing_ok=True)
        if signed:
            signature_of(path).write_bytes(sign(path.read_bytes(), self._private))


def pictures(folder: Path) -> Path:
    """Make a folder of images: a synthetic camera would itself grow while it draws."""
    made = folder / "pictures"
    made.mkdir()
    source = make_source(SourceSpec(SourceAddress("synthetic://"), fps=1000.0))
    source.open()
    for number in range(PICTURES):
        cv2.imwrite(str(made / f"{number:02}.png"), source.read().pixels)
    source.close()
    return made


@dataclass
class Frames:
    """Frames received in a period: their numbers, the drops so far, and milliseconds from capture to arrival."""

    sequences: list[int] = field(default_factory=list)
    drops: list[dict[str, int]] = field(default_factory=list)
    ways_ms: list[float] = field(default_factory=list)

    def take(self, message: dict[str, Any], arrived: float) -> None:
        """Add one frame message and its arrival, in seconds since the epoch."""
        self.sequences.append(message["sequence"])
        self.drops.append(message["dropped"])
        self.ways_ms.append(1000 * (arrived - _seconds(message["captured"])))

    @property
    def lost(self) -> int:
        """Numbers that are missing."""
        return self.sequences[-1] - self.sequences[0] + 1 - len(set(self.sequences))

    @property
    def failed(self) -> int:
        """Frames that a model failed on and no other classified."""
        return self.drops[-1]["failed"] - self.drops[0]["failed"]


def _seconds(utc: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(utc.replace("Z", "+00:00")).timestamp()


def summary(stretches: list[Frames]) -> dict[str, float]:
    """Return the summary of the frames; late means compared with the median of all."""
    ways = [way for stretch in stretches for way in stretch.ways_ms]
    usual = statistics.median(ways)
    return {
        "frames": len(ways),
        "lost": sum(stretch.lost for stretch in stretches),
        "failed": sum(stretch.failed for stretch in stretches),
        "late": sum(way > usual + FRAME_TIME_MS for way in ways),
        "median_ms": round(usual, 2),
        "longest_ms": round(max(ways), 2),
    }


class Operator:
    """Subscribes to all topics of the device, and sends commands."""

    def __init__(self, port: int) -> None:
        self.frames = Frames()
        self.answers: list[dict[str, Any]] = []
        self.swaps: list[dict[str, Any]] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(f"edgemeta/{DEVICE}/#", qos=1)
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        arrived = time.time()
        kind = message.topic.removeprefix(f"edgemeta/{DEVICE}/")
        if kind.endswith("/frame"):
            self.frames.take(json.loads(message.payload), arrived)
        elif kind == "resp/model":
            self.answers.append(json.loads(message.payload))
        elif kind == "swap":
            self.swaps.append(json.loads(message.payload))

    def choose(self, model: str) -> dict[str, Any]:
        """Request a model swap; returns the answer."""
        before = len(self.answers)
        self._client.publish(f"edgemeta/{DEVICE}/cmd/model", json.dumps({"model": model}), qos=1)
        wait_until(lambda: len(self.answers) > before, "an answer")
        return self.answers[before]

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


class Run:
    """One service with its broker, from the start to the end."""

    def __init__(self, folder: Path, leak: int = 0) -> None:
        self._broker = Mosquitto(folder)
        self._broker.start()
        self._models = Models(folder)
        self._pictures = pictures(folder)
        self._numbers = itertools.cycle((1, 0))
        self._ways = itertools.cycle(enumerate(BAD))
        self.results: Counter[str] = Counter()
        config = folder / "config.yaml"
        config.write_text(yaml.safe_dump(self._config(leak)))
        os.environ.update(install(folder / "plugin"))
        self._service = ManagedService(config, folder / "log")
        self.operator = Operator(self._broker.port)

    def _config(self, leak: int) -> dict[str, Any]:
        return {
            "device": DEVICE,
            "model": str(self._models.folder / "good-0.safetensors"),
            "backend": {"name": NAME, "options": {"leak": leak} if leak else {}},
            "cameras": {"front": {"source": str(self._pictures), "fps": RATE, "loop": True}},
            "swap": {
                "shadow_frames": 5,
                "trial_frames": 5,
                "min_agreement": 0.9,
                "model_folder": "models",
                "timeout": 30.0,
            },
            "watch_files": False,
            "trust": {"public_key_files": [str(self._models.public)]},
            "mqtt": {"host": "127.0.0.1", "port": self._broker.port},
            "data_folder": "state",
            "log": {"level": "error"},
        }

    def begin(self) -> None:
        """Wait for the first frames."""
        self._service.ready()
        wait_until(lambda: len(self.operator.frames.sequences) >= RATE, "frames")

    def rest(self, seconds: float) -> Frames:
        """Return the frames of a period without swaps."""
        self.operator.frames = frames = Frames()
        time.sleep(seconds)
        return frames

    def swap(self, count: int) -> Frames:
        """Swap models, every second time to a bad one; returns the frames received meanwhile."""
        self.operator.frames = frames = Frames()
        for number in range(count):
            if number % 2:
                place, way = next(self._ways)
                self._choose(f"bad-{place}", way)
            else:
                self._choose(f"good-{next(self._numbers)}", "")
        return frames

    def _choose(self, model: str, way: str) -> None:
        answer = self.operator.choose(model)
        if answer["ok"] == bool(way):
            raise RigError(f"{model} ({way or 'good'}): {answer['outcome']}")
        self.results[way or "swapped"] += 1

    def holds(self) -> dict[str, int]:
        """The least that the service's process holds: a frame that is being read is only temporary."""
        looks = []
        for _ in range(LOOKS):
            looks.append(self._service.holds)
            time.sleep(0.037)  # not a multiple of the frames' time
        return {key: min(look[key] for look in looks) for key in looks[0]}

    def end(self) -> None:
        """Stop everything."""
        self.operator.close()
        _, code = self._service.stop()
        self._broker.stop()
        if code:
            raise RigError(f"the service ended with exit code {code}")


def measure(swaps: int, warm_up: int, with_rests: bool, leak: int = 0) -> dict[str, Any]:
    """Swap models in a service of its own; returns growth, results of the swaps and the summary of the frames."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), leak)
        try:
            run.begin()
            run.swap(warm_up)
            before, run.results, run.operator.swaps = run.holds(), Counter(), []
            swapping, resting = [], []
            for left in range(swaps, 0, -ROUND):
                began = time.monotonic()
                swapping.append(run.swap(min(left, ROUND)))
                resting += [run.rest(time.monotonic() - began)] if with_rests else []
            after = run.holds()
            return {
                "ended": dict(run.results),
                "grown": {key: after[key] - before[key] for key in before},
                "frames": summary(swapping),
                "frames_without_swaps": summary(resting) if resting else None,
                "median_us": _medians(run.operator.swaps),
            }
        finally:
            run.end()


def _medians(swaps: list[dict[str, Any]]) -> dict[str, int]:
    """How long each step of the successful swaps took, in microseconds."""
    took = [swap["took_us"] for swap in swaps if swap["result"] == "swapped"]
    return {step: round(statistics.median(each[step] for each in took)) for step in took[0]}


def main() -> None:
    """Read the command line, measure with and without the leak, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swaps", type=int, default=SWAPS)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/swaps.json")
    arguments = parser.parse_args()
    result = measure(arguments.swaps, WARM_UP, with_rests=True)
    leaking = measure(arguments.swaps, WARM_UP, with_rests=False, leak=LEAK)["grown"]["rss_kib"]
    result |= {"swaps": arguments.swaps, "rate": RATE, "grown_with_planted_leak_kib": leaking}
    print(json.dumps(result, indent=2))
    bad = []
    if result["grown"]["rss_kib"] > GREATEST_GROWTH_KIB:
        bad.append("swaps leak memory")
    if max(result["grown"][key] for key in ("threads", "files", "children")) > 0:
        bad.append("swaps leave something behind")
    if leaking <= GREATEST_GROWTH_KIB:
        bad.append("the planted leak was not seen")
    swapping, resting = result["frames"], result["frames_without_swaps"]
    if swapping["failed"] or any(swapping[key] > resting[key] for key in ("lost", "late")):
        bad.append("swaps cost frames")
    if arguments.keep:
        write_json("swaps", "python reliability/swaps.py --keep", result)
    if bad:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
