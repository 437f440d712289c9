"""All counters of the service at one moment: what metrics are made of. Plain records, nothing of Prometheus here."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import BrokerStats, CameraState, CameraStats, ModelIdentity, OutboxStats
from edgemeta.daemon.metrics.histogram import HistogramReading


@dataclass(frozen=True)
class CameraSnapshot:
    """One camera.

    failures, outages, runs: how often its source failed (each try counts), how often frames stopped, and how often they
    began to come. last_frame_age: seconds since the last one came; None before the first. frame_interval: seconds
    between two frames where the service keeps the pace, else 0. model, backend: what classifies its frames.
    """

    counts: CameraStats
    state: CameraState
    failures: int
    outages: int
    runs: int
    last_frame_age: float | None
    frame_interval: float
    model: ModelIdentity
    backend: str


@dataclass(frozen=True)
class MetricsSnapshot:
    """The service at one moment; counters and histograms since its start.

    Ages and durations are of the monotonic clock, because a reader's clock may be another.
    uptime: seconds since the start. hanging: threads that do not keep their promise. stages: latencies by stage.
    wants_disk: whether messages shall wait on disk. swaps: how many ended how. model_refused: whether a model that the
    config names does not serve. received_dropped: messages from the broker that were not handled, by reason.
    """

    device: str
    version: str
    config_sha256: str
    uptime: float
    clock_synchronized: bool
    hanging: int
    cameras: Mapping[str, CameraSnapshot]
    stages: Mapping[str, HistogramReading]
    broker: BrokerState
    link: BrokerStats
    outbox: OutboxStats
    wants_disk: bool
    received_dropped: Mapping[str, int]
    swaps: Mapping[str, int]
    model_refused: bool
