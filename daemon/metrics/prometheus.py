"""The service's metrics in the text format of Prometheus, made from readings at the moment of the scrape.

docs/metrics.md has a row for each family that is made here; a test compares. Names and units go by the conventions of
Prometheus: base units, `_total` for what only grows, `_info` for facts whose value is 1.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.metrics.histogram import BOUNDS_NS
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from edgemeta.daemon.runtime.clock import NS

TASKS = Path("/proc/self/task")
"""One entry for each thread of this process, the libraries' own included."""

_process = ProcessCollector(registry=None)


def exposition(readings: MetricsSnapshot) -> tuple[bytes, str]:
    """Return all metrics as text, and its content type."""
    return generate_latest(_Families(families(readings))), CONTENT_TYPE_LATEST


def families(readings: MetricsSnapshot) -> list[Metric]:
    """Return all metrics with their samples, the service's own first, then the process's."""
    return [
        *_service(readings),
        *_frames(readings),
        *_stages(readings),
        *_cameras(readings),
        *_broker(readings),
        *_outbox(readings),
        *_swaps(readings),
        *_process.collect(),
        GaugeMetricFamily("process_threads", "Number of threads.", len(list(TASKS.iterdir()))),
    ]


class _Families(Collector):
    """Families that are there already, in the form in which the library wants them."""

    def __init__(self, made: Iterable[Metric]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made


def _service(readings: MetricsSnapshot) -> Iterator[Metric]:
    yield InfoMetricFamily("edgemeta_build", "The edgemeta that runs.", {"version": readings.version})
    yield InfoMetricFamily(
        "edgemeta_config", "The config in effect.", {"device": readings.device, "sha256": readings.config_sha256}
    )
    yield GaugeMetricFamily(
        "edgemeta_uptime_seconds", "Seconds since the service started, by the monotonic clock.", readings.uptime
    )
    yield GaugeMetricFamily(
        "edgemeta_clock_synchronized",
        "Whether the device's clock is disciplined; else distrust its UTC.",
        readings.clock_synchronized,
    )
    yield GaugeMetricFamily(
        "edgemeta_threads_hanging", "Threads that were not heard of in time; the watchdog is starved.", readings.hanging
    )


def _frames(readings: MetricsSnapshot) -> Iterator[Metric]:
    captured = CounterMetricFamily("edgemeta_frames_captured", "Frames captured.", labels=["camera"])
    processed = CounterMetricFamily("edgemeta_frames_processed", "Frames classified.", labels=["camera"])
    published = CounterMetricFamily(
        "edgemeta_frames_published", "Frame messages the broker has taken.", labels=["camera"]
    )
    dropped = CounterMetricFamily(
        "edgemeta_frames_dropped", "Frames captured and lost, by reason.", labels=["camera", "reason"]
    )
    withheld = CounterMetricFamily(
        "edgemeta_frames_withheld", "Frames classified and, as configured, not published.", labels=["camera"]
    )
    for name, camera in readings.cameras.items():
        captured.add_metric([name], camera.counts.captured)
        processed.add_metric([name], camera.counts.processed)
        published.add_metric([name], camera.counts.published)
        withheld.add_metric([name], camera.counts.withheld)
        for reason, number in camera.counts.dropped:
            dropped.add_metric([name, reason], number)
    yield from (captured, processed, published, withheld, dropped)


def _stages(readings: MetricsSnapshot) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "edgemeta_stage_duration_seconds",
        "How long each stage of a frame's way took, all cameras together.",
        labels=["stage"],
    )
    for stage, reading in readings.stages.items():
        buckets = [(repr(bound / NS), float(number)) for bound, number in zip(BOUNDS_NS, reading.up_to, strict=True)]
        durations.add_metric([stage], [*buckets, ("+Inf", float(reading.count))], reading.sum_ns / NS)
    yield durations


def _cameras(readings: MetricsSnapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "edgemeta_camera_state", "1 for the state in which the camera is.", labels=["camera", "state"]
    )
    failures = CounterMetricFamily(
        "edgemeta_camera_failures", "Failures of the camera's source, each failed try to open it.", labels=["camera"]
    )
    outages = CounterMetricFamily(
        "edgemeta_camera_outages", "Times that frames stopped coming: from running to failed.", labels=["camera"]
    )
    runs = CounterMetricFamily(
        "edgemeta_camera_runs", "Times that frames began to come, at first or again.", labels=["camera"]
    )
    age = GaugeMetricFamily(
        "edgemeta_camera_last_frame_age_seconds",
        "Seconds since the camera's last frame came, by the monotonic clock; absent before the first.",
        labels=["camera"],
    )
    interval = GaugeMetricFamily(
        "edgemeta_camera_frame_interval_seconds",
        "Seconds between two frames where the service keeps the pace; 0 where the source does.",
        labels=["camera"],
    )
    model = InfoMetricFamily("edgemeta_model", "What classifies the camera's frames.", labels=["camera"])
    for name, camera in readings.cameras.items():
        for one in CameraState:
            state.add_metric([name, one.value], camera.state is one)
        failures.add_metric([name], camera.failures)
        outages.add_metric([name], camera.outages)
        runs.add_metric([name], camera.runs)
        if camera.last_frame_age is not None:
            age.add_metric([name], camera.last_frame_age)
        interval.add_metric([name], camera.frame_interval)
        model.add_metric([name], {"name": camera.model.name, "sha256": camera.model.sha256, "backend": camera.backend})
    yield from (state, failures, outages, runs, age, interval, model)


def _broker(readings: MetricsSnapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "edgemeta_broker_state", "1 for the state in which the connection to the broker is.", labels=["state"]
    )
    for one in BrokerState:
        state.add_metric([one.value], readings.broker is one)
    failures = CounterMetricFamily(
        "edgemeta_broker_failures", "Failures of the connection to the broker, by kind.", labels=["kind"]
    )
    for kind, number in readings.link.failures:
        failures.add_metric([kind], number)
    yield from (state, failures)
    yield CounterMetricFamily(
        "edgemeta_broker_connects", "Times the broker accepted the connection.", readings.link.connects
    )
    yield CounterMetricFamily(
        "edgemeta_broker_messages_published", "Messages of all kinds the broker has taken.", readings.link.published
    )
    yield CounterMetricFamily(
        "edgemeta_broker_messages_refused", "Messages of all kinds the broker has refused.", readings.link.refused
    )
    received = CounterMetricFamily(
        "edgemeta_received_dropped",
        "Messages from the broker, commands for example, that were dropped: too many, or too long.",
        labels=["reason"],
    )
    for reason, number in readings.received_dropped.items():
        received.add_metric([reason], number)
    yield received


def _outbox(readings: MetricsSnapshot) -> Iterator[Metric]:
    outbox = readings.outbox
    yield GaugeMetricFamily("edgemeta_outbox_messages", "Messages waiting for the broker.", outbox.waiting)
    yield GaugeMetricFamily("edgemeta_outbox_size_bytes", "Their size.", outbox.bytes)
    on_disk = GaugeMetricFamily(
        "edgemeta_outbox_on_disk",
        "Whether they wait on disk; else only in memory. Absent with `mqtt.outbox.max_disk_mb: 0`, which wants that.",
    )
    if readings.wants_disk:
        on_disk.add_metric([], outbox.place == "disk")
    yield on_disk
    yield CounterMetricFamily("edgemeta_outbox_replayed", "Messages told late, as historical.", outbox.replayed)
    dropped = CounterMetricFamily(
        "edgemeta_outbox_dropped", "Messages dropped: the outbox was full, or they were too old.", labels=["reason"]
    )
    dropped.add_metric(["full"], outbox.dropped)
    dropped.add_metric(["expired"], outbox.expired)
    yield dropped


def _swaps(readings: MetricsSnapshot) -> Iterator[Metric]:
    swaps = CounterMetricFamily("edgemeta_swaps", "Swaps of a network, by how they ended.", labels=["result"])
    for result, number in readings.swaps.items():
        swaps.add_metric([result], number)
    yield swaps
    yield GaugeMetricFamily(
        "edgemeta_model_refused",
        "Whether a network that the config names was refused, and another serves.",
        readings.model_refused,
    )
