"""The state of the whole service as the page shows it: one record, sent as JSON, with its schema in docs/schema."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.messages.page import BrokerPage, CameraPage, PageState, Point, StagePage
from edgemeta.daemon.messages.service import InfoMessage
from edgemeta.daemon.messages.stats import StatsMessage
from edgemeta.daemon.metrics.health import Health
from edgemeta.daemon.metrics.snapshot import CameraSnapshot, MetricsSnapshot
from edgemeta.daemon.mqtt.state import LinkStatus
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.web.recent_frames import RecentFrames, ScorePoint
from edgemeta.model.tasks import TaskName


@dataclass(frozen=True)
class ServiceView:
    """What the page reads from the service. Any thread may call these.

    stats: the last stats message, None before the first. broker: status of the link. cameras: their config, by name.
    device_name: that for people, None without one.
    """

    health: Callable[[], Health]
    snapshot: Callable[[], MetricsSnapshot]
    info: Callable[[], InfoMessage]
    stats: Callable[[], StatsMessage | None]
    broker: Callable[[], LinkStatus]
    cameras: Callable[[], Mapping[str, CameraConfig]]
    device_name: Callable[[], str | None]


class Observer:
    """Combines the state of the service and the recent frames."""

    def __init__(self, service: ServiceView, recent: RecentFrames, config: Config, clock: Clock) -> None:
        self._service = service
        self._recent = recent
        self._show_frames = config.web.show_frames
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._clock = clock

    def observe(self, after: int = 0) -> tuple[PageState, int]:
        """Return the state with the points numbered above `after`, and the number for the next call."""
        now = time.monotonic_ns()
        snapshot, health, info = self._service.snapshot(), self._service.health(), self._service.info()
        stats, link, cameras = self._service.stats(), self._service.broker(), self._service.cameras()
        points_of = {camera: self._recent.points(camera, after) for camera in self._recent.cameras}
        state = PageState(
            time=self._clock.utc(now),
            clock_synchronized=snapshot.clock_synchronized,
            uptime_s=round(snapshot.uptime, 1),
            pictures=self._show_frames,
            name=self._service.device_name() or info.device,
            info=info,
            health=snapshot.health,
            cameras={
                name: self._camera(name, reading, info.tasks[name], cameras[name], health.cameras, points_of[name], now)
                for name, reading in snapshot.cameras.items()
            },
            stages=StagePage(period_s=stats.period_s, latency_us=stats.latency_us) if stats else None,
            broker=BrokerPage(
                address=self._broker, state=link.state, reason=link.reason, refuses=snapshot.link.refuses
            ),
            outbox=snapshot.outbox,
            wants_disk=snapshot.wants_disk,
            swap=health.swap,
            swaps=dict(snapshot.swaps),
            hanging_threads=list(health.hanging_threads),
        )
        newest = max((points[-1].number for points in points_of.values() if points), default=after)
        return state, newest

    def _camera(
        self,
        name: str,
        reading: CameraSnapshot,
        task: TaskName,
        config: CameraConfig,
        description: Mapping[str, str],
        points: list[ScorePoint],
        now: int,
    ) -> CameraPage:
        shown = self._recent.newest(name)
        return CameraPage(
            status=reading.state,
            description=description[name],
            model=reading.model,
            task=task,
            backend=reading.backend,
            zones={name: [(x, y) for x, y in zone.polygon] for name, zone in config.zones.items()},
            lines={name: [(x, y) for x, y in line.points] for name, line in config.lines.items()},
            place_names={name: zone.name for name, zone in config.zones.items() if zone.name is not None},
            rate=round(self._recent.rate(name, now), 1),
            age_s=round((now - shown.captured_ns) / NS, 3) if shown else None,
            frame=shown.message if shown else None,
            counts=reading.counts,
            points=[self._point(point) for point in points],
        )

    def _point(self, point: ScorePoint) -> Point:
        when = self._clock.utc(point.captured_ns)
        return Point(time_ms=round(when.timestamp() * 1000), label=point.label, score=point.score, state=point.state)
