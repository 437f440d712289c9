"""The state of the whole service as the page shows it: one record, sent as JSON, with its schema in docs/schema."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import Field

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.messages.records import (
    CameraState,
    CameraStats,
    FrameMessage,
    InfoMessage,
    ModelIdentity,
    OutboxStats,
    Part,
    Stages,
    StatsMessage,
)
from edgemeta.daemon.metrics.health import Vitals
from edgemeta.daemon.metrics.snapshot import CameraReading, Readings
from edgemeta.daemon.mqtt.state import BrokerState, LinkStatus
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.web.recent_frames import Moment, Seen


class Point(Part):
    """How sure the network was at one moment."""

    time_ms: int = Field(description="When the frame was captured: UTC, milliseconds since 1970.")
    label: str = Field(description="The most probable label.")
    score: float = Field(ge=0, le=1, description="Its score.")
    state: str | None = Field(description="The smoothed label then; null until there is one.")


class CameraPage(Part):
    """One camera."""

    status: CameraState = Field(description="Where it stands.")
    words: str = Field(description="The same in words, with what is wrong.")
    model: ModelIdentity = Field(description="Its network.")
    backend: str = Field(description="What runs it.")
    rate: float = Field(ge=0, description="Frames classified per second, over the last ten seconds at most.")
    age_s: float | None = Field(description="Seconds since the newest classified frame was captured; null without one.")
    frame: FrameMessage | None = Field(description="The newest classified frame, as published; null before the first.")
    counts: CameraStats = Field(description="Frames since the start.")
    points: list[Point] = Field(description="Confidence over time, oldest first, at most four per second.")


class StagePage(Part):
    """The latencies of the last stats message."""

    period_s: float = Field(ge=0, description="Seconds they stand for.")
    latency_us: Stages = Field(description="Latencies by stage.")


class BrokerPage(Part):
    """The connection to the broker."""

    address: str = Field(description="Its host and port.")
    state: BrokerState = Field(description="Where it stands.")
    reason: str | None = Field(description="What is wrong, in words; null where nothing is.")


class PageState(Part):
    """Everything that the page shows, at one moment."""

    schema_version: Literal[1] = Field(default=1, description="Version of this format.")
    time: datetime = Field(description="This moment, UTC.")
    clock_synchronized: bool = Field(description="Whether the device's clock is disciplined; else distrust UTC.")
    uptime_s: float = Field(ge=0, description="Seconds since the service started.")
    pictures: bool = Field(description="Whether pictures are shown (`web.pictures`).")
    info: InfoMessage = Field(description="What runs here.")
    cameras: dict[str, CameraPage] = Field(description="The cameras by name.")
    stages: StagePage | None = Field(description="Latencies by stage; null before the first stats message.")
    broker: BrokerPage = Field(description="The connection to the broker.")
    outbox: OutboxStats = Field(description="The messages that wait for the broker.")
    wants_disk: bool = Field(description="Whether they shall wait on disk (`mqtt.outbox.size`).")
    swap: str | None = Field(description="How far a swap of models is, in words; null where none is in flight.")
    swaps: dict[str, int] = Field(description="Swaps of models since the start, by how they ended.")
    troubles: list[str] = Field(description="Threads that hang, in words.")


@dataclass(frozen=True)
class Report:
    """What the page asks of the service. Any thread may call these.

    stats: the last stats message made, None before the first. broker: where the link to it stands.
    """

    vitals: Callable[[], Vitals]
    readings: Callable[[], Readings]
    info: Callable[[], InfoMessage]
    stats: Callable[[], StatsMessage | None]
    broker: Callable[[], LinkStatus]


class Observer:
    """Puts the state together from the service's report and what was seen."""

    def __init__(self, report: Report, seen: Seen, config: Config, clock: Clock) -> None:
        self._report = report
        self._seen = seen
        self._pictures = config.web.pictures
        self._broker = f"{config.mqtt.host}:{config.mqtt.port}"
        self._clock = clock

    def look(self, after: int = 0) -> tuple[PageState, int]:
        """Return the state with the points numbered above `after`, and the number to ask with next time."""
        now = time.monotonic_ns()
        readings, vitals, info = self._report.readings(), self._report.vitals(), self._report.info()
        stats, link = self._report.stats(), self._report.broker()
        moments = {camera: self._seen.points(camera, after) for camera in self._seen.cameras}
        state = PageState(
            time=self._clock.utc(now),
            clock_synchronized=readings.clock_synchronized,
            uptime_s=round((self._clock.utc(now) - info.started).total_seconds(), 1),
            pictures=self._pictures,
            info=info,
            cameras={
                name: self._camera(name, reading, vitals.cameras, moments[name], now)
                for name, reading in readings.cameras.items()
            },
            stages=StagePage(period_s=stats.period_s, latency_us=stats.latency_us) if stats else None,
            broker=BrokerPage(address=self._broker, state=link.state, reason=link.reason),
            outbox=readings.outbox,
            wants_disk=readings.wants_disk,
            swap=vitals.swap,
            swaps=dict(readings.swaps),
            troubles=list(vitals.troubles),
        )
        newest = max((points[-1].number for points in moments.values() if points), default=after)
        return state, newest

    def _camera(
        self, name: str, reading: CameraReading, words: Mapping[str, str], moments: list[Moment], now: int
    ) -> CameraPage:
        sight = self._seen.newest(name)
        return CameraPage(
            status=reading.state,
            words=words[name],
            model=reading.model,
            backend=reading.backend,
            rate=round(self._seen.rate(name, now), 1),
            age_s=round((now - sight.captured_ns) / NS, 3) if sight else None,
            frame=sight.message if sight else None,
            counts=reading.counts,
            points=[self._point(moment) for moment in moments],
        )

    def _point(self, moment: Moment) -> Point:
        when = self._clock.utc(moment.captured_ns)
        return Point(time_ms=round(when.timestamp() * 1000), label=moment.label, score=moment.score, state=moment.state)
