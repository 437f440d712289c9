"""A snapshot of all counters of the service, as plain records; `prometheus.py` makes metrics of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState, ModelIdentity
from edgemeta.daemon.messages.stats import BrokerStats, CameraStats, DeviceHealth, OutboxStats
from edgemeta.daemon.metrics.latency import HistogramReading


@dataclass(frozen=True)
class CameraSnapshot:
    """One camera.

    failures, outages, runs: how often its source failed (each attempt counts), how often frames stopped, and how often
    they started. damaged: its damaged frames and errors of the decoder. last_frame_age: seconds since the last frame
    was captured; None before the first. delay: by how many of them it arrived late; None where its stream does not say
    it. frame_interval: seconds between two frames if the service sets the rate, else 0. model, backend: those that
    classify its frames. listed_labels: labels with series from the start. appeared: how many of each label appeared
    since then. events: how many were published, by kind and by what an object did (empty for other kinds). shown_name:
    the camera's name for people.
    """

    counts: CameraStats
    state: CameraState
    failures: int
    outages: int
    runs: int
    damaged: int
    last_frame_age: float | None
    delay: float | None
    frame_interval: float
    model: ModelIdentity
    backend: str
    listed_labels: tuple[str, ...] = ()
    appeared: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[tuple[str, str], int] = field(default_factory=dict)
    shown_name: str = ""


@dataclass(frozen=True)
class MetricsSnapshot:
    """The service at one moment; counters and histograms since its start.

    Ages and durations are measured with the monotonic clock, because a reader's clock may differ.
    uptime: seconds since the start. hanging: threads that missed their heartbeat deadline.
    overloaded: whether the service gets too little of the processor. thread_delay: seconds by which a thread was woken
    late in the last second, on average. stages: latencies by stage.
    wants_disk: whether messages are configured to wait on disk. swaps: number by result. model_refused: whether a model
    named by the config is not in use. received_dropped: messages from the broker that were not handled, by reason.
    """

    device: str
    version: str
    config_sha256: str
    uptime: float
    clock_synchronized: bool
    hanging: int
    overloaded: bool
    thread_delay: float
    cameras: Mapping[str, CameraSnapshot]
    stages: Mapping[str, HistogramReading]
    broker: BrokerState
    link: BrokerStats
    outbox: OutboxStats
    wants_disk: bool
    received_dropped: Mapping[str, int]
    swaps: Mapping[str, int]
    model_refused: bool
    health: DeviceHealth
