"""The state of the whole service as the page shows it: one record, sent as JSON, with its schema in docs/schema."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.messages.page import BrokerPage, CameraPage, PageState, Point, StagePage
from edgemeta.daemon.messages.records import (
    InfoMessage,
    StatsMessage,
)
from edgemeta.daemon.metrics.health import Health
from edgemeta.daemon.metrics.snapshot import CameraSnapshot, MetricsSnapshot
from edgemeta.daemon.mqtt.state import LinkStatus
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.web.recent_frames import RecentFrames, ScorePoint


@dataclass(frozen=True)
class Report:
    """What the page asks of the service. Any thread may call these.

    stats: the last stats message made, None before the first. broker: where the link to it stands.
    """

    health: Callable[[], Health]
    readings: Callable[[], MetricsSnapshot]
    info: Callable[[], InfoMessage]
    stats: Callable[[], StatsMessage | None]
    broker: Callable[[], LinkStatus]


class Observer:
    """Puts the state together from the service's report and what was seen."""

    def __init__(self, report: Report, seen: RecentFrames, config: Config, clock: Clock) -> None:
        self._report = report
        self._seen = seen
        self._pictures = config.web.show_frames
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._clock = clock

    def look(self, after: int = 0) -> tuple[PageState, int]:
        """Return the state with the points numbered above `after`, and the number to ask with next time."""
        now = time.monotonic_ns()
        readings, health, info = self._report.readings(), self._report.health(), self._report.info()
        stats, link = self._report.stats(), self._report.broker()
        moments = {camera: self._seen.points(camera, after) for camera in self._seen.cameras}
        state = PageState(
            time=self._clock.utc(now),
            clock_synchronized=readings.clock_synchronized,
            uptime_s=round((self._clock.utc(now) - info.started).total_seconds(), 1),
            pictures=self._pictures,
            info=info,
            cameras={
                name: self._camera(name, reading, health.cameras, moments[name], now)
                for name, reading in readings.cameras.items()
            },
            stages=StagePage(period_s=stats.period_s, latency_us=stats.latency_us) if stats else None,
            broker=BrokerPage(address=self._broker, state=link.state, reason=link.reason),
            outbox=readings.outbox,
            wants_disk=readings.wants_disk,
            swap=health.swap,
            swaps=dict(readings.swaps),
            hanging_threads=list(health.hanging_threads),
        )
        newest = max((points[-1].number for points in moments.values() if points), default=after)
        return state, newest

    def _camera(
        self, name: str, reading: CameraSnapshot, description: Mapping[str, str], moments: list[ScorePoint], now: int
    ) -> CameraPage:
        sight = self._seen.newest(name)
        return CameraPage(
            status=reading.state,
            description=description[name],
            model=reading.model,
            backend=reading.backend,
            rate=round(self._seen.rate(name, now), 1),
            age_s=round((now - sight.captured_ns) / NS, 3) if sight else None,
            frame=sight.message if sight else None,
            counts=reading.counts,
            points=[self._point(moment) for moment in moments],
        )

    def _point(self, moment: ScorePoint) -> Point:
        when = self._clock.utc(moment.captured_ns)
        return Point(time_ms=round(when.timestamp() * 1000), label=moment.label, score=moment.score, state=moment.state)
