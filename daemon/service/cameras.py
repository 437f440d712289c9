"""The cameras of a plan: started, restarted by a reload, stopped, and read."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from edgemeta.daemon.capture.camera import Camera, CameraStatus
from edgemeta.daemon.capture.large_pictures import LargePictures
from edgemeta.daemon.capture.latest_frames import LatestFrames
from edgemeta.daemon.capture.load import CameraLoad, Openings
from edgemeta.daemon.capture.reduction import Reduction, reduction_of
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.metrics.counters import FrameCounters, camera_stats
from edgemeta.daemon.metrics.load import LoadMonitor, Progress
from edgemeta.daemon.metrics.snapshot import CameraSnapshot
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import InUse, Plan

END_WITHIN = 0.5
"""Seconds that a reload waits for the cameras that it restarts."""


@dataclass(eq=False)
class Cameras:
    """All cameras of one service, and the load that they are. Any thread may read.

    refusal: why the broker refuses a camera's frames; None if it accepts them. publish: called, in the camera's thread,
    with each new status; publish_motion: with whether there is motion, and since when. load: measured from `load.start`
    on.
    """

    _in_use: InUse
    _frames: LatestFrames
    _counters: Mapping[str, FrameCounters]
    _refusal: Callable[[str], str | None]
    _publish: Callable[[str, CameraStatus], None]
    _publish_motion: Callable[[str, bool, int], None]
    _on_fatal: Callable[[BaseException], None]

    def __post_init__(self) -> None:
        self.load = LoadMonitor(self._progress, self._on_fatal)
        self._openings = Openings(lambda: self.load.is_starved, self._is_full)
        self._cameras = {name: self._camera(name) for name in self._in_use.plan.config.cameras}

    def start(self) -> None:
        """Start all cameras."""
        for camera in self._cameras.values():
            camera.start()

    def stop(self) -> None:
        """Have all cameras end."""
        for camera in self._cameras.values():
            camera.stop()

    def join(self, deadline: Deadline) -> None:
        """Wait for all cameras together; one that hangs is abandoned."""
        _join(self._cameras.values(), deadline)

    def end_changed(self, after: Plan) -> list[str]:
        """End the cameras that a change to another plan restarts, and wait for them; return their names."""
        before = self._in_use.plan
        old = before.config.cameras
        names = [
            name
            for name, config in after.config.cameras.items()
            if config.requires_restart(old[name]) or _reduction(after, name) != _reduction(before, name)
        ]
        ending = [self._cameras[name] for name in names]
        for camera in ending:
            camera.stop()
        _join(ending, Deadline(END_WITHIN))
        return names

    def adjust(self, after: Plan) -> None:
        """Apply what needs no restart of a camera."""
        for name, config in after.config.cameras.items():
            self._cameras[name].max_fps = config.max_fps

    def restart(self, names: Collection[str]) -> None:
        """Start cameras that have ended with the keys of the plan in use."""
        for name in names:
            self._cameras[name] = self._camera(name)
            self._cameras[name].start()

    def status(self, name: str) -> CameraStatus | None:
        """Return a camera's status; None before its start."""
        status = self._cameras[name].status
        return status and self._with_refusal(name, status)

    @property
    def statuses(self) -> dict[str, CameraStatus | None]:
        """The status of each camera; None before its start."""
        return {name: self.status(name) for name in self._cameras}

    @property
    def hanging(self) -> list[str]:
        """Descriptions of the cameras that missed their heartbeat deadline."""
        heartbeats = (camera.heartbeat for camera in self._cameras.values())
        return [problem for heartbeat in heartbeats if (problem := heartbeat.overdue) is not None]

    def snapshots(self) -> dict[str, CameraSnapshot]:
        """Return a snapshot of each camera's counters."""
        return {name: self._snapshot(name, camera) for name, camera in self._cameras.items()}

    def _snapshot(self, name: str, camera: Camera) -> CameraSnapshot:
        plan, last_ns = self._in_use.plan, camera.last_frame_ns
        age = None if last_ns is None else max(0, time.monotonic_ns() - last_ns) / NS
        return CameraSnapshot(
            counts=camera_stats(self._counters[name], self._frames, name),
            state=camera.status.state if camera.status else CameraState.OPENING,
            failures=camera.failures,
            outages=camera.outages,
            runs=camera.runs,
            damaged=camera.damaged,
            last_frame_age=age,
            delay=camera.delay,
            frame_interval=camera.frame_interval,
            model=plan.loaded_models[name].identity,
            backend=plan.loaded_models[name].backend,
            listed_labels=plan.listed_labels_of(name),
            appeared=dict(self._counters[name].appeared),
            events=dict(self._counters[name].events),
            shown_name=plan.config.cameras[name].name or name,
        )

    def _camera(self, name: str) -> Camera:
        plan = self._in_use.plan
        config = plan.config.cameras[name]
        deliver = self._frames.put_when_free if config.fps == 0 else self._frames.put
        load = CameraLoad(
            opens_in=lambda: self._openings.opens_in(name, has_run=self._frames.counts(name)[0] > 0),
            opened=partial(self._openings.opened, name),
            is_behind=lambda: self.load.is_starved and self._frames.is_waiting(name),
            missed=self._counters[name].add_missed,
        )
        source, on_motion, large = plan.sources[name], self._publish_motion, plan.picture_sources.get(name)
        pictures = None if large is None else LargePictures(name, config, large, self._on_fatal)
        return Camera(name, config, source, deliver, self._changed, self._on_fatal, load, on_motion, pictures)

    def pictures_of(self, name: str) -> LargePictures | None:
        """Where the pictures of a camera come from, if not from what is classified."""
        camera = self._cameras[name]
        return camera.pictures if camera.delivers else None

    def _changed(self, name: str, status: CameraStatus) -> None:
        self._publish(name, self._with_refusal(name, status))

    def _with_refusal(self, name: str, status: CameraStatus) -> CameraStatus:
        """Return a camera's status, with a reason if nothing is wrong but that the broker refuses its frames."""
        refusal = self._refusal(name)
        return status if refusal is None or status.has_problem else replace(status, reason=f"the broker {refusal}")

    def _is_full(self) -> bool:
        """Whether the cameras that run overload the service."""
        return self.load.overloaded is not None and any(camera.delivers for camera in self._cameras.values())

    def _progress(self) -> Progress:
        """Frames of all cameras since the start, for the load."""
        counts = [self._frames.counts(name) for name in self._counters]
        missed = sum(counters.missed for counters in self._counters.values())
        captured, superseded = (sum(each[number] for each in counts) for number in (0, 1))
        statuses = [camera.status for camera in self._cameras.values()]
        late = any(status is not None and status.state is CameraState.DELAYED for status in statuses)
        return Progress(captured + missed, superseded + missed, late, all(captured for captured, *_ in counts))


def _reduction(plan: Plan, camera: str) -> Reduction:
    return reduction_of(plan.config.cameras[camera], plan.loaded_models[camera].model)


def _join(cameras: Collection[Camera], deadline: Deadline) -> None:
    for camera in cameras:
        camera.join(deadline.left)
