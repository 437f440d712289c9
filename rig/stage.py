"""The rig with two cameras, a clip and an RTSP camera, at 30 frames per second each: where faults are played.

Between the RTSP camera and the service lies a network that can be cut, as before the broker. Everything that is
promised in seconds is timed here, and what the service says of itself is held against what is so.
"""

import hashlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import cv2

from edgemeta.daemon.capture.sources.synthetic.show import Show
from edgemeta.model.zoo import find
from rig.camera import RtspCamera
from rig.disk import SmallDisk
from rig.network import Network
from rig.patience import RigError, until
from rig.whole import Rig
from rig.witness import retained

CLIP, STREET = "clip", "street"
CAMERAS = (CLIP, STREET)
RATE = 30
READY_WITHIN, BACK_WITHIN, STOPS_WITHIN = 1.5, 2.0, 2.0
"""Seconds that the service promises: start to READY, whatever returns to the next frame, SIGTERM to the end."""

MODELS = ("resnet8-cifar10", "resnet8-cifar10-paper")
CURRENT = "current.safetensors"
DISK_TRIED_WITHIN = 90.0
"""Seconds within which a disk that failed is used again: it is tried every minute at the latest."""

CAMERA_TIMEOUT = 1.0
WATCHDOG = 3.0


def make_clip(path: Path, seconds: float = 5.0) -> None:
    """Write a clip of drawn scenes, 640x480."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (640, 480))
    show = Show(seed=1)
    for number in range(round(seconds * RATE)):
        writer.write(show.frame(number))
    writer.release()


class Stage:
    """Everything runs after `open`. `slack` is by how much a busy machine may be later than promised."""

    def __init__(self, folder: Path, seed: int, slack: float, mounts: bool) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        make_clip(folder / "clip.avi")
        self.models = folder / "models"
        self.models.mkdir()
        self.put_model(MODELS[0])
        self.camera = RtspCamera(rate=RATE)
        self.camera.start()
        self.cable = Network(self.camera.port)
        self.address = f"rtsp://127.0.0.1:{self.cable.port}/cam"
        self.rig = Rig(folder, "soak", self.config(), WATCHDOG)
        self.disk = SmallDisk(self.rig.state) if mounts else None
        self.alone = True
        self._slack = slack
        self._took: dict[str, list[float]] = defaultdict(list)
        self._promised: dict[str, float] = {}
        self.late: list[str] = []
        self.held: list[dict[str, int]] = []

    def config(self, **changes: Any) -> dict[str, Any]:
        """Return the service's config with some keys changed; `clip` and `street` are keys of a camera."""
        cameras: dict[str, dict[str, Any]] = {
            CLIP: {"source": str(self.folder / "clip.avi"), "fps": RATE, "loop": True},
            STREET: {"source": self.address, "frame_timeout": CAMERA_TIMEOUT},
        }
        for name in CAMERAS:
            cameras[name] |= changes.pop(name, {})
        keys = {"cameras": cameras, "state": {"min_frames": 1, "window_frames": 1}, "model": str(self.models / CURRENT)}
        return keys | {"swap": {"model_folder": str(self.models)}, "watch_files": False} | changes

    def put_model(self, name: str) -> None:
        """Let the model file that the config names hold a shipped network."""
        part = self.models / f"{CURRENT}.part"
        part.write_bytes(find(name).read_bytes())
        part.replace(self.models / CURRENT)

    def other_model(self) -> str:
        """Return the name of the shipped network that does not run now."""
        return next(name for name in MODELS if not self.runs(name))

    def runs(self, name: str) -> bool:
        """Whether `info` tells that a shipped network runs, by its digest."""
        return bool(self.retained("info")["model"]["sha256"] == hashlib.sha256(find(name).read_bytes()).hexdigest())

    @property
    def remembered(self) -> str:
        """What the service has written of its good models, for its next start."""
        index = self.rig.state / "models-soak" / "last-good.json"
        return index.read_text() if index.is_file() else ""

    def open(self) -> None:
        """Start the service and wait for frames of both cameras."""
        self.rig.write_config()
        self.start_service()

    def start_service(self) -> None:
        """Start it; time how long it takes to be ready, and to the first frame of each camera."""
        awaited = {name: self.rig.witness.next_frame(name) for name in CAMERAS}
        service = self.rig.start_service()
        ready = service.ready()
        self.time("start to READY=1", ready, READY_WITHIN)
        if self.alone:
            for name, frame in awaited.items():
                self.time(f"READY=1 to the first frame of {name}", frame.within(service.began) - ready, BACK_WITHIN)

    def stop_service(self) -> None:
        """Stop it in order."""
        took, code = self.rig.running.stop()
        self.time("SIGTERM to the end", took, STOPS_WITHIN)
        if code != 0:
            raise RigError(f"the service ended with exit code {code}")

    def time(self, what: str, seconds: float, promised: float) -> None:
        """Keep how long something took beside what is promised; where two faults came together nothing is."""
        if not self.alone:
            return
        self._took[what].append(seconds)
        self._promised[what] = promised
        if seconds > promised * self._slack:
            self.late.append(f"{what}: {seconds:.2f} s")

    @property
    def durations(self) -> dict[str, dict[str, float]]:
        """What was timed, in words."""
        return {
            what: {
                "count": len(took),
                "median_s": round(median(took), 3),
                "greatest_s": round(max(took), 3),
                "promised_s": self._promised[what],
            }
            for what, took in sorted(self._took.items())
        }

    def pause(self, shortest: float, longest: float) -> None:
        """Let some time go by."""
        time.sleep(self.random.uniform(shortest, longest))

    def retained(self, topic: str) -> Any:
        """What the broker retains on a topic of the device now: parsed JSON, or plain text for availability."""
        payload = retained(self.rig.broker.port).get(f"edgemeta/soak/{topic}", b"null")
        return payload.decode() if topic == "availability" else json.loads(payload)

    def becomes(self, topic: str, expected: Mapping[str, Any] | str) -> None:
        """Wait until the broker retains that on a topic: a text, or an object with these fields."""

        def so() -> bool:
            found = self.retained(topic)
            if isinstance(expected, str):
                return bool(found == expected)
            return found is not None and all(found[key] == value for key, value in expected.items())

        until(so, f"{topic} to become {expected}, not {self.retained(topic)}", 20)

    def quiet(self) -> None:
        """Nothing is wrong: everything that the service says of itself must be so, and nothing may have piled up."""
        self.rig.settle()
        for name in CAMERAS:
            self.becomes(f"{name}/status", {"status": "running", "reason": None})
        self.becomes("availability", "online")
        self.becomes("info", {"boot": self.rig.witness.ledger.boots[-1], "model_refused": None})
        until(lambda: self.rig.witness.stats["outbox"]["place"] == "disk", "the outbox on disk", DISK_TRIED_WITHIN)
        self.says(
            "connected",
            *(f"camera {name} running" for name in CAMERAS),
            but=("not connected", "hangs", "model refused"),
        )
        self.held.append({"pid": self.rig.running.process.pid, **self.rig.running.holds})

    def says(self, *parts: str, but: tuple[str, ...] = (), seconds: float = 20.0) -> None:
        """Wait until the status that the manager shows has these parts, and none of the others."""
        manager = self.rig.running.manager

        def so() -> bool:
            return all(part in manager.status for part in parts) and not any(part in manager.status for part in but)

        until(so, f"the status to say {parts}, not {manager.status!r}", seconds)

    def close(self) -> None:
        """End everything, also after a fault."""
        self.rig.close()
        self.cable.close()
        self.camera.kill()
        if self.disk is not None:
            self.disk.close()
