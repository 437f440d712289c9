"""All counters of the service at one moment: what metrics are made of. Plain records, nothing of Prometheus here."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgemeta.daemon.broker_state import BrokerState
from edgemeta.daemon.histogram import HistogramReading
from edgemeta.daemon.messages import BrokerStats, CameraState, CameraStats, ModelIdentity, OutboxStats


@dataclass(frozen=True)
class CameraReading:
    """One camera.

    failures, runs: how often its source failed, and how often frames began to come. last_frame: when the last one came,
    in seconds since 1970, UTC; None before the first. model, backend: what classifies its frames.
    """

    counts: CameraStats
    state: CameraState
    failures: int
    runs: int
    last_frame: float | None
    model: ModelIdentity
    backend: str


@dataclass(frozen=True)
class Readings:
    """The service at one moment; counters and histograms since its start.

    hanging: threads that do not keep their promise. stages: latencies by stage. swaps: how many ended how.
    """

    device: str
    version: str
    config_sha256: str
    clock_synchronized: bool
    hanging: int
    cameras: Mapping[str, CameraReading]
    stages: Mapping[str, HistogramReading]
    broker: BrokerState
    link: BrokerStats
    outbox: OutboxStats
    swaps: Mapping[str, int]
