"""How well objects are followed on a clip with a truth, beside ByteTrack of `boxmot` with the same boxes, and how fast.

    python benchmarks/tracking.py --model yolox.safetensors --clip vtest_480x360.avi --truth gt.txt --peer PYTHON --keep

writes benchmarks/results/tracking.json and .md. The model is YOLOX-nano, imported and quantized with the clip
(`edgemeta import`, `edgemeta quantize --calibrate`). The truth is MOTChallenge 2015's of PETS09-S2L1 (frame, person,
left, top, width, height, in pixels of 768x576), the same 795 frames as the clip. PYTHON is an interpreter that has
boxmot.

Events are those of the service with its defaults, and with `objects.scores: {person: 0.6}`. A person causes one begin
when it comes and one end when it is gone. *Of nobody* are the begin of what is on nobody of the truth within a second
(NEAR), the end of what never was on anybody, and a standstill of what is on nobody; *mistaken* are the begin of
somebody who has begun before, and the end of an object whose last person is still there. In the background walks one
person whom the truth lacks (LACKING), who is counted as one of it.

Speed: objects that walk at random in 640x480 pixels, a twelfth of them hidden in each frame, CPU time of the thread.
"""

import argparse
import csv
import json
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import cv2

from benchmarks.mot_scores import Placed, scores_of
from benchmarks.result_file import write_json, write_markdown
from edgemeta.cli.options import open_session
from edgemeta.cli.predict import make_preprocessor
from edgemeta.daemon.config.camera import TilesConfig
from edgemeta.daemon.config.objects import ObjectsConfig
from edgemeta.daemon.config.tracking import TrackingConfig
from edgemeta.daemon.inference.pipeline import picture_of
from edgemeta.daemon.inference.readers.by_task import detection_reader
from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.inference.tracking.detection import DetectionTracker
from edgemeta.daemon.inference.tracking.life import GRID
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.runtime.clock import NS
from edgemeta.model.file import load
from edgemeta.model.tasks import Detection
from edgemeta.tasks.tracking.objects import ObjectTracker, Rules, Seen, Strength

COMMAND = (
    "python benchmarks/tracking.py --model yolox.safetensors --clip vtest_480x360.avi --truth gt.txt --peer PYTHON"
)
RATE = 10
TRUTH_WIDTH = 768
LACKING = range(84, 180)
"""Frames in which somebody whom the truth lacks walks in the background, from x = 170 to the left edge above y = 95."""
NEAR = RATE
"""Frames after a begin in which the truth has its person; it lacks people who are just entering."""
RULE = Rule(3, 5, 0.5, 0.4)
SETTINGS = {
    "defaults": CameraSettings(3, RULE, objects=ObjectsConfig(labels=["person"])),
    "person: 0.6": CameraSettings(3, RULE, objects=ObjectsConfig(labels=["person"], scores={"person": 0.6})),
}
PEERS: dict[str, dict[str, float]] = {
    "ByteTrack of boxmot, its defaults (0.45)": {},
    "ByteTrack of boxmot, track_thresh 0.6": {"track_thresh": 0.6},
    "ByteTrack of boxmot, 0.6 and match_thresh 0.9": {"track_thresh": 0.6, "match_thresh": 0.9},
}
Box = tuple[float, float, float, float]
Truth = Mapping[int, Sequence[Placed]]


def readings_of(path: Path, clip: Path, settings: CameraSettings) -> list[Reading]:
    """What the model finds in each frame."""
    model = load(path)
    assert isinstance(model.task, Detection)
    read, found = detection_reader(model, model.task, settings), []
    session = open_session(model, "auto", 1, None)[1]
    capture = cv2.VideoCapture(str(clip))
    preprocess = None
    while (frame := capture.read())[0]:
        pixels = frame[1]
        if preprocess is None:
            preprocess, picture = make_preprocessor(model, pixels.shape), picture_of(model, pixels.shape, TilesConfig())
        found.append(read(session.run(preprocess(pixels)), picture))
    session.close()
    return found


def truth_of(path: Path, width: int) -> dict[int, list[Placed]]:
    """Persons by frame, from 0, in pixels of a clip of this width."""
    truth: dict[int, list[Placed]] = defaultdict(list)
    for row in csv.reader(path.open()):
        left, top, wide, high = (float(each) * width / TRUTH_WIDTH for each in row[2:6])
        truth[int(row[0]) - 1].append(Placed(int(row[1]), (left, top, left + wide, top + high)))
    return truth


def ours(readings: Iterable[Reading], settings: CameraSettings, truth: Truth, every: int) -> dict[str, Any]:
    """Scores and events of every so many frames."""
    tracker, frames, watch = DetectionTracker(), [], EventWatch(truth)
    for number, reading in enumerate(readings):
        if number % every:
            frames.append([])
            continue
        tracked = tracker.add(reading, settings, (number + 1) * NS // RATE)
        here = [each for each in tracker.objects.confirmed if each.missed == 0]
        frames.append([Placed(each.id or 0, _pixels(each.box)) for each in here])
        watch.see(frames[-1], number)
        for event in tracked.events:
            assert event.object is not None
            assert event.change is not None
            watch.add(event.change, event.object["id"], number)
    minutes = len(frames) / RATE / 60
    scores = scores_of({number: truth[number] for number in truth if number % every == 0}, frames)
    events = watch.summary()
    return {
        **_shown(scores),
        **events,
        "of nobody per minute": round(len(events["of nobody"]) / minutes, 2),
        "mistaken per minute": round(len(events["mistaken"]) / minutes, 2),
    }


def _pixels(box: tuple[int, int, int, int]) -> Box:
    x0, y0, x1, y1 = (side / GRID for side in box)
    return x0, y0, x1, y1


def _shown(scores: Any) -> dict[str, Any]:
    return {"mota": round(scores.mota, 4), "switches": scores.switches, "false": scores.false, "missed": scores.missed}


class EventWatch:
    """Whether persons of the truth caused the events of objects."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._on: dict[int, dict[int, int]] = defaultdict(dict)
        self._events: list[tuple[ObjectChange, int, int]] = []

    def see(self, objects: Iterable[Placed], frame: int) -> None:
        """Note which person each object of a frame is on."""
        for each in objects:
            person = self._person_at(each.box, frame)
            if person is not None:
                self._on[each.id][frame] = person

    def add(self, change: ObjectChange, number: int, frame: int) -> None:
        """Add what an object did in a frame."""
        self._events.append((change, number, frame))

    def summary(self) -> dict[str, Any]:
        """How many events and begins, and which were without cause."""
        begun = set[int]()
        nobody: list[str] = []
        mistaken: list[str] = []
        for change, number, frame in self._events:
            on = self._on[number]
            if change is ObjectChange.BEGIN:
                near = [on[each] for each in range(frame, frame + NEAR) if each in on]
                is_nobody, caused = not near, bool(near) and near[0] not in begun
                begun.update(near[:1])
            elif change is ObjectChange.END:
                there = {each.id for each in self._truth.get(frame, ())}
                is_nobody, caused = not on, bool(on) and on[max(on)] not in there
            else:
                is_nobody = not (caused := frame in on)
            if not caused:
                (nobody if is_nobody else mistaken).append(f"{change.value} of object {number} in frame {frame}")
        begins = sum(change is ObjectChange.BEGIN for change, _, _ in self._events)
        return {"events": len(self._events), "begins": begins, "of nobody": nobody, "mistaken": mistaken}

    def _person_at(self, box: Box, frame: int) -> int | None:
        if frame in LACKING and box[3] < 95 and abs((box[0] + box[2]) / 2 - 170 + 1.85 * (frame - LACKING.start)) < 15:
            return -1
        best = max(self._truth.get(frame, ()), key=lambda each: _overlap(each.box, box), default=None)
        return best.id if best is not None and _overlap(best.box, box) >= 0.3 else None


def _overlap(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    shared = max(0.0, width) * max(0.0, height)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def counted_before(readings: Sequence[Reading], settings: CameraSettings) -> float:
    """Events per minute of counts alone."""
    tracker = DetectionTracker()
    events = [
        event
        for number, reading in enumerate(readings)
        for event in tracker.add(
            reading, CameraSettings(3, RULE, objects=settings.objects, tracking=TrackingConfig(enabled=False)), number
        ).events
    ]
    assert {event.kind for event in events} <= {EventKind.APPEARED, EventKind.GONE}
    return round(len(events) / (len(readings) / RATE / 60), 1)


def peer(python: str, readings: Sequence[Reading], options: Mapping[str, float], truth: Truth, every: int) -> Any:
    """Scores of ByteTrack of boxmot."""
    boxes = [
        [[*each["box"], each["score"]] for each in (*(reading.objects or ()), *reading.faint)]
        for reading in readings[::every]
    ]
    given = json.dumps({"size": readings[0].size, "frames": boxes, "options": options})
    script = str(Path(__file__).with_name("tracking_peer.py"))
    done = subprocess.run([python, script], input=given, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    frames = [[Placed(number, tuple(box)) for number, *box in found] for found in answer["frames"]]
    chosen = {number // every: persons for number, persons in truth.items() if number % every == 0}
    return {**_shown(scores_of(chosen, frames)), "version": answer["version"]}


def speed(objects: int, frames: int = 1000) -> dict[str, float]:
    """Milliseconds of CPU time of one frame."""
    rules, tracker, taken = Rules(3, 5, 3000, (640 * GRID, 480 * GRID)), ObjectTracker(), []
    for number, boxes in enumerate(walks(objects, frames)):
        start = time.thread_time_ns()
        tracker.add(boxes, rules, number * 100)
        taken.append((time.thread_time_ns() - start) / 1e6)
    parts = quantiles(taken, n=100)
    return {"objects": objects, "p50_ms": round(parts[49], 3), "p99_ms": round(parts[98], 3)}


def walks(objects: int, frames: int) -> Iterable[list[Seen]]:
    """Boxes of objects that walk at random."""
    chance, size = random.Random(1), (640 * GRID, 480 * GRID)
    walkers = [
        [chance.uniform(0, size[0]), chance.uniform(0, size[1]), chance.gauss(0, 40), chance.gauss(0, 40)]
        for _ in range(objects)
    ]
    sides = [chance.uniform(15, 40) * GRID for _ in walkers]
    for _ in range(frames):
        boxes = []
        for walker, side in zip(walkers, sides, strict=True):
            for axis in (0, 1):
                walker[axis + 2] += chance.gauss(0, 4)
                walker[axis] += walker[axis + 2]
                if not 0 < walker[axis] < size[axis]:
                    walker[axis + 2] = -walker[axis + 2]
                    walker[axis] = min(max(walker[axis], 0), size[axis])
            score = chance.uniform(0.15, 0.95)
            strength = Strength.FAINT if score < 0.4 else Strength.SURE if score < 0.5 else Strength.STRONG
            x, y = (int(walker[axis] + chance.gauss(0, 12)) for axis in (0, 1))
            box = (x - int(side) // 2, y - int(side), x + int(side) // 2, y + int(side))
            if chance.random() > 1 / 12:
                boxes.append(Seen(box, "person", int(score * 1_000_000), strength))
        yield boxes


def main() -> None:
    """Measure, print, and keep where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--model", "--clip", "--truth"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--peer", help="an interpreter that has boxmot")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"followed": {}, "counts alone, events per minute": {}, "peers": {}}
    for name, settings in SETTINGS.items():
        readings = readings_of(arguments.model, arguments.clip, settings)
        truth = truth_of(arguments.truth, readings[0].size[0])
        results["counts alone, events per minute"][name] = counted_before(readings, settings)
        for every in (1, 2):
            results["followed"][f"{name}, {RATE // every} frames/s"] = ours(readings, settings, truth, every)
    for name, options in PEERS.items() if arguments.peer else ():
        for every in (1, 2):
            found = peer(arguments.peer, readings, options, truth, every)
            results["peers"][f"{name}, {RATE // every} frames/s"] = found
    results["speed"] = [speed(objects) for objects in (10, 50, 100)]
    print(json.dumps(results, indent=2))
    if arguments.keep:
        write_json("tracking", f"{COMMAND} --keep", results)
        write_markdown("tracking", f"{COMMAND} --keep", _text(results))


def _text(results: dict[str, Any]) -> str:
    rows = ["| | MOTA | switches | false | missed |", "|---|---|---|---|---|"]
    for name, each in [*results["followed"].items(), *results["peers"].items()]:
        own = name in results["followed"]
        figures = f"{each['mota']:.3f} | {each['switches']} | {each['false']} | {each['missed']}"
        rows.append(f"| {'edgemeta, ' if own else ''}{name} | {figures} |")
    head = "| edgemeta | events | begins | of nobody: per minute | mistaken: per minute | which | counts alone |"
    rows += ["", head, "|---|---|---|---|---|---|---|"]
    for name, each in results["followed"].items():
        before = results["counts alone, events per minute"][name.rpartition(", ")[0]] if f"{RATE} " in name else ""
        which = "; ".join([*each["of nobody"], *each["mistaken"]]) or "none"
        figures = (
            f"{each['events']} | {each['begins']} | {each['of nobody per minute']} | {each['mistaken per minute']}"
        )
        rows.append(f"| {name} | {figures} | {which} | {before} |")
    rows += ["", "| objects | p50 ms | p99 ms |", "|---|---|---|"]
    rows += [f"| {each['objects']} | {each['p50_ms']} | {each['p99_ms']} |" for each in results["speed"]]
    return "\n".join(rows)


if __name__ == "__main__":
    main()
