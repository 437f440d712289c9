"""A system with five cameras for fault tests: a clip and an RTSP camera at 30 frames per second, three more at 10.

The network between the first RTSP camera and the service can fail, like the one to the broker; the three others are
streams of a second server. All promised durations are measured here, and what the service reports is compared with the
facts.
"""

import hashlib
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import cv2

from edgemeta.model.zoo import find
from edgemeta.plugins.drawn.show import Show
from rig.broker import KEEPING
from rig.camera import RtspCamera
from rig.disk import SmallDisk
from rig.subscriber import retained
from rig.system import System
from rig.tcp_proxy import TcpProxy
from rig.waiting import RigError, wait_until

CLIP, STREET = "clip", "street"
OTHERS = ("drive", "gate", "yard")
CAMERAS = (CLIP, STREET, *OTHERS)
RATE, RATE_OF_OTHERS = 30, 10
READY_WITHIN, BACK_WITHIN, STOPS_WITHIN = 1.5, 2.0, 2.0
"""Promised seconds: from start to READY, from recovery of a part to the next frame, from SIGTERM to the exit."""

MODELS = ("resnet8-cifar10", "resnet8-cifar10-paper")
CURRENT = "current.safetensors"
DISK_TRIED_WITHIN = 90.0
"""Seconds within which a failed disk is used again: the service retries every minute at the latest."""

ALL_ALLOWED = "topic readwrite #\n"
"""Rights of every client, for mosquitto's acl_file."""

CAMERA_TIMEOUT = 1.0
WATCHDOG = 3.0


def make_clip(path: Path, seconds: float = 5.0) -> None:
    """Write a clip of drawn scenes, 640x480."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), RATE, (640, 480))
    show = Show(seed=1)
    for number in range(round(seconds * RATE)):
        writer.write(show.frame(number))
    writer.release()


class Scenario:
    """All parts run after `open`. slack: factor by which durations may exceed the promise on a busy machine."""

    def __init__(self, folder: Path, seed: int, slack: float, mounts: bool) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        make_clip(folder / "clip.avi")
        self.models = folder / "models"
        self.models.mkdir()
        self.put_model(MODELS[0])
        self.camera = RtspCamera(rate=RATE)
        self.camera.start()
        self.camera_proxy = TcpProxy(self.camera.port)
        self.address = f"rtsp://127.0.0.1:{self.camera_proxy.port}/cam"
        self.others = RtspCamera(rate=RATE_OF_OTHERS, shared=False)
        self.others.start()
        self._rights = folder / "acl"
        self._rights.write_text(ALL_ALLOWED)
        broker = ("allow_anonymous true", f"acl_file {self._rights}", *KEEPING)
        self.system = System(folder, "soak", self.config(), WATCHDOG, broker)
        self.disk = SmallDisk(self.system.state) if mounts else None
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
        cameras |= {name: {"source": self.others.address, "frame_timeout": CAMERA_TIMEOUT} for name in OTHERS}
        for name in CAMERAS:
            cameras[name] |= changes.pop(name, {})
        keys = {"cameras": cameras, "state": {"min_frames": 1, "window_frames": 1}, "model": str(self.models / CURRENT)}
        return keys | {"swap": {"model_folder": str(self.models)}, "watch_files": False} | changes

    def forbid(self, topic: str | None) -> None:
        """Let the broker refuse all messages on a topic of the device for good; None allows everything again."""
        self._rights.write_text(ALL_ALLOWED + (f"topic deny edgemeta/soak/{topic}\n" if topic else ""))
        self.system.broker.reload()

    def frames_of(self, *cameras: str) -> Callable[[float], float]:
        """Start to wait for a live frame of each camera; the result waits, and returns the seconds since `began`."""
        awaited = [self.system.subscriber.next_frame(name) for name in cameras]
        return lambda began: max(frame.within(began) for frame in awaited)

    def put_model(self, name: str) -> None:
        """Write a shipped model to the configured model file."""
        part = self.models / f"{CURRENT}.part"
        part.write_bytes(find(name).read_bytes())
        part.replace(self.models / CURRENT)

    def other_model(self) -> str:
        """Return the name of the shipped model that is not in use."""
        return next(name for name in MODELS if not self.runs(name))

    def runs(self, name: str) -> bool:
        """Return whether `info` has the digest of a shipped model."""
        return bool(self.retained("info")["model"]["sha256"] == hashlib.sha256(find(name).read_bytes()).hexdigest())

    @property
    def remembered(self) -> str:
        """The service's index of its last good models; empty without one."""
        index = self.system.state / "models-soak" / "last-good.json"
        return index.read_text() if index.is_file() else ""

    def open(self) -> None:
        """Start the service and wait for frames of both cameras."""
        self.system.write_config()
        self.start_service()

    def start_service(self) -> None:
        """Start the service; measure the time until READY, and until the first frame of each camera."""
        awaited = {name: self.system.subscriber.next_frame(name) for name in CAMERAS}
        service = self.system.start_service()
        ready = service.ready()
        self.time("start to READY=1", ready, READY_WITHIN)
        if self.alone:
            for name, frame in awaited.items():
                self.time(f"READY=1 to the first frame of {name}", frame.within(service.began) - ready, BACK_WITHIN)

    def stop_service(self) -> None:
        """Stop the service with SIGTERM."""
        took, code = self.system.running.stop()
        self.time("SIGTERM to the end", took, STOPS_WITHIN)
        if code != 0:
            raise RigError(f"the service ended with exit code {code}")

    def time(self, what: str, seconds: float, promised: float) -> None:
        """Record a duration and its promise; ignored while faults are combined, as nothing is promised then."""
        if not self.alone:
            return
        self._took[what].append(seconds)
        self._promised[what] = promised
        if seconds > promised * self._slack:
            self.late.append(f"{what}: {seconds:.2f} s")

    @property
    def durations(self) -> dict[str, dict[str, float]]:
        """Statistics of the recorded durations."""
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
        """Wait a random time."""
        time.sleep(self.random.uniform(shortest, longest))

    def retained(self, topic: str) -> Any:
        """Return the retained message of a topic: parsed JSON, or plain text for `availability`."""
        payload = retained(self.system.broker.port).get(f"edgemeta/soak/{topic}", b"null")
        return payload.decode() if topic == "availability" else json.loads(payload)

    def wait_for_retained(self, topic: str, expected: Mapping[str, Any] | str) -> None:
        """Wait until the retained message of a topic is this text, or has these fields."""

        def so() -> bool:
            found = self.retained(topic)
            if isinstance(expected, str):
                return bool(found == expected)
            return found is not None and all(found[key] == value for key, value in expected.items())

        wait_until(so, f"{topic} to become {expected}, not {self.retained(topic)}", 20)

    def check_quiet(self) -> None:
        """Check that all is well: every report of the service is correct, and no resource has grown."""
        self.system.settle()
        for name in CAMERAS:
            self.wait_for_retained(f"{name}/status", {"status": "running", "reason": None})
        self.wait_for_retained("availability", "online")
        self.wait_for_retained("info", {"boot": self.system.subscriber.audit.boots[-1], "model_refused": None})
        wait_until(
            lambda: self.system.subscriber.stats["outbox"]["place"] == "disk", "the outbox on disk", DISK_TRIED_WITHIN
        )
        self.wait_for_status(
            "connected",
            *(f"camera {name} running" for name in CAMERAS),
            but=("not connected", "refuses", "hangs", "model refused"),
        )
        self.held.append({"pid": self.system.running.process.pid, **self.system.running.holds})

    def wait_for_status(self, *parts: str, but: tuple[str, ...] = (), seconds: float = 20.0) -> None:
        """Wait until the status line has all `parts`, and none of `but`."""
        manager = self.system.running.manager

        def so() -> bool:
            return all(part in manager.status for part in parts) and not any(part in manager.status for part in but)

        wait_until(so, f"the status to say {parts}, not {manager.status!r}", seconds)

    def close(self) -> None:
        """Stop everything, also after an error."""
        self.system.close()
        self.camera_proxy.close()
        self.camera.kill()
        self.others.kill()
        if self.disk is not None:
            self.disk.close()
