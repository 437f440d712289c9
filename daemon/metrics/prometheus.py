"""The service's metrics in the text format of Prometheus, made from a snapshot at the time of the scrape.

docs/metrics.md has a row for each metric family; a test compares. Names and units follow the conventions of Prometheus:
base units, `_total` for counters, `_info` for facts whose value is 1.
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
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.metrics.latency import BOUNDS_NS
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from edgemeta.daemon.runtime.clock import NS

TASKS = Path("/proc/self/task")
"""One entry for each thread of this process, those of libraries included."""


def exposition(snapshot: MetricsSnapshot) -> tuple[bytes, str]:
    """Return all metrics as text, and its content type."""
    return generate_latest(_Families(families(snapshot))), CONTENT_TYPE_LATEST


def families(snapshot: MetricsSnapshot) -> list[Metric]:
    """Return all metrics with their samples: those of the service, then those of the process."""
    return [
        *_service(snapshot),
        *_frames(snapshot),
        *_stages(snapshot),
        *_cameras(snapshot),
        *_objects(snapshot),
        _events(snapshot),
        *_broker(snapshot),
        *_outbox(snapshot),
        *_swaps(snapshot),
        *_device(snapshot),
        *ProcessCollector(registry=None).collect(),  # a new one reads when the machine started: that changes with UTC
        GaugeMetricFamily("process_threads", "Number of threads.", len(list(TASKS.iterdir()))),
    ]


class _Families(Collector):
    """Existing metric families, in the form that the library expects."""

    def __init__(self, made: Iterable[Metric]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made


def _service(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    yield InfoMetricFamily("edgemeta_build", "The version of edgemeta.", {"version": snapshot.version})
    yield InfoMetricFamily(
        "edgemeta_config", "The config in effect.", {"device": snapshot.device, "sha256": snapshot.config_sha256}
    )
    yield GaugeMetricFamily(
        "edgemeta_uptime_seconds", "Seconds since the service started, by the monotonic clock.", snapshot.uptime
    )
    yield GaugeMetricFamily(
        "edgemeta_clock_synchronized",
        "Whether the device's clock is synchronized; if not, its UTC may be wrong.",
        snapshot.clock_synchronized,
    )
    yield GaugeMetricFamily(
        "edgemeta_threads_hanging",
        "Threads that missed their heartbeat deadline; the watchdog is not fed.",
        snapshot.hanging,
    )
    yield GaugeMetricFamily(
        "edgemeta_overloaded",
        "Whether the service gets too little of the processor, so that frames are late.",
        snapshot.overloaded,
    )
    yield GaugeMetricFamily(
        "edgemeta_thread_delay_seconds",
        "By how much a thread was woken late in the last second, on average.",
        snapshot.thread_delay,
    )


def _frames(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    captured = CounterMetricFamily("edgemeta_frames_captured", "Frames captured.", labels=["camera"])
    processed = CounterMetricFamily("edgemeta_frames_processed", "Frames classified.", labels=["camera"])
    published = CounterMetricFamily(
        "edgemeta_frames_published", "Frame messages acknowledged by the broker.", labels=["camera"]
    )
    dropped = CounterMetricFamily(
        "edgemeta_frames_dropped", "Frames captured and dropped, by reason.", labels=["camera", "reason"]
    )
    withheld = CounterMetricFamily(
        "edgemeta_frames_withheld", "Frames classified and not published, as configured.", labels=["camera"]
    )
    missed = CounterMetricFamily(
        "edgemeta_frames_missed",
        "Frames that were due and not captured, because the service was late or overloaded.",
        labels=["camera"],
    )
    unknown = CounterMetricFamily(
        "edgemeta_frames_unknown", "Frames classified that show nothing the model knows.", labels=["camera"]
    )
    due = CounterMetricFamily("edgemeta_pictures_due", "Pictures for the broker that were due.", labels=["camera"])
    pictures = CounterMetricFamily(
        "edgemeta_pictures_published", "Pictures acknowledged by the broker.", labels=["camera"]
    )
    for name, camera in snapshot.cameras.items():
        captured.add_metric([name], camera.counts.captured)
        processed.add_metric([name], camera.counts.processed)
        published.add_metric([name], camera.counts.published)
        withheld.add_metric([name], camera.counts.withheld)
        unknown.add_metric([name], camera.counts.unknown)
        missed.add_metric([name], camera.counts.missed)
        for reason, number in camera.counts.dropped:
            dropped.add_metric([name, reason], number)
        due.add_metric([name], camera.counts.pictures.due)
        pictures.add_metric([name], camera.counts.pictures.published)
    yield from (captured, processed, published, withheld, unknown, dropped, missed, due, pictures)


def _stages(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "edgemeta_stage_duration_seconds",
        "Duration of each processing stage of a frame, for all cameras together.",
        labels=["stage"],
    )
    for stage, reading in snapshot.stages.items():
        buckets = [(repr(bound / NS), float(number)) for bound, number in zip(BOUNDS_NS, reading.up_to, strict=True)]
        durations.add_metric([stage], [*buckets, ("+Inf", float(reading.count))], reading.sum_ns / NS)
    yield durations


def _cameras(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "edgemeta_camera_state", "1 for the present state of the camera.", labels=["camera", "state"]
    )
    failures = CounterMetricFamily(
        "edgemeta_camera_failures",
        "Failures of the camera's source, including each failed attempt to open it.",
        labels=["camera"],
    )
    outages = CounterMetricFamily(
        "edgemeta_camera_outages", "Times that frames stopped, also frozen, black or late ones.", labels=["camera"]
    )
    runs = CounterMetricFamily(
        "edgemeta_camera_runs", "Times that frames started, including the first time.", labels=["camera"]
    )
    age = GaugeMetricFamily(
        "edgemeta_camera_last_frame_age_seconds",
        "Seconds since the camera's last frame was captured, by the monotonic clock; absent before the first.",
        labels=["camera"],
    )
    delay = GaugeMetricFamily(
        "edgemeta_camera_delay_seconds",
        "Seconds by which the camera's last frame arrived late, by the timestamps of its stream; absent without them.",
        labels=["camera"],
    )
    damaged = CounterMetricFamily(
        "edgemeta_camera_damaged_frames",
        "Damaged frames and errors of the decoder, as far as the camera's source tells.",
        labels=["camera"],
    )
    interval = GaugeMetricFamily(
        "edgemeta_camera_frame_interval_seconds",
        "Seconds between two frames if the service sets the rate; 0 if the source does.",
        labels=["camera"],
    )
    shown = InfoMetricFamily("edgemeta_camera", "The camera's name for people.", labels=["camera"])
    model = InfoMetricFamily(
        "edgemeta_model", "Model and backend that classify the camera's frames.", labels=["camera"]
    )
    for name, camera in snapshot.cameras.items():
        for one in CameraState:
            state.add_metric([name, one.value], camera.state is one)
        failures.add_metric([name], camera.failures)
        outages.add_metric([name], camera.outages)
        runs.add_metric([name], camera.runs)
        if camera.last_frame_age is not None:
            age.add_metric([name], camera.last_frame_age)
        if camera.delay is not None:
            delay.add_metric([name], camera.delay)
        damaged.add_metric([name], camera.damaged)
        interval.add_metric([name], camera.frame_interval)
        shown.add_metric([name], {"name": camera.shown_name})
        model.add_metric([name], {"name": camera.model.name, "sha256": camera.model.sha256, "backend": camera.backend})
    yield from (state, failures, outages, runs, age, delay, damaged, interval, shown, model)


def _objects(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    """Counts of detections and multi-label classifications; other tasks have none."""
    present = GaugeMetricFamily(
        "edgemeta_camera_objects",
        "Objects that are present, by the rule of `state`; multi-label: 1 while the label is.",
        labels=["camera", "label"],
    )
    appeared = CounterMetricFamily(
        "edgemeta_camera_objects_appeared",
        "Objects that began, or by how much the count of the label grew where objects are not followed.",
        labels=["camera", "label"],
    )
    for name, camera in snapshot.cameras.items():
        counts = camera.counts.counts
        if counts is None:
            continue
        for label in dict.fromkeys((*camera.listed_labels, *camera.appeared, *counts)):
            present.add_metric([name, label], counts.get(label, 0))
            appeared.add_metric([name, label], camera.appeared.get(label, 0))
    yield from (present, appeared)


EVENTS = (
    *((kind.value, "") for kind in EventKind if kind is not EventKind.OBJECT),
    *((EventKind.OBJECT.value, change.value) for change in ObjectChange),
)
"""Kinds of events, and what an object did."""


def _events(snapshot: MetricsSnapshot) -> Metric:
    events = CounterMetricFamily(
        "edgemeta_camera_events",
        "Events, by kind; of a followed object by what it did, otherwise `change` is empty.",
        labels=["camera", "kind", "change"],
    )
    for name, camera in snapshot.cameras.items():
        for each in EVENTS:
            events.add_metric([name, *each], camera.events.get(each, 0))
    return events


def _broker(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "edgemeta_broker_state", "1 for the present state of the connection to the broker.", labels=["state"]
    )
    for one in BrokerState:
        state.add_metric([one.value], snapshot.broker is one)
    failures = CounterMetricFamily(
        "edgemeta_broker_failures", "Failures of the connection to the broker, by kind.", labels=["kind"]
    )
    for kind, number in snapshot.link.failures:
        failures.add_metric([kind], number)
    yield from (state, failures)
    yield CounterMetricFamily(
        "edgemeta_broker_connects", "Times the broker accepted the connection.", snapshot.link.connects
    )
    yield CounterMetricFamily(
        "edgemeta_broker_messages_published",
        "Messages of all kinds acknowledged by the broker.",
        snapshot.link.published,
    )
    yield CounterMetricFamily(
        "edgemeta_broker_messages_refused", "Messages of all kinds refused by the broker.", snapshot.link.refused
    )
    yield GaugeMetricFamily(
        "edgemeta_broker_refuses",
        "Whether the broker refuses any messages or subscriptions now, for good or for now.",
        snapshot.link.refuses is not None,
    )
    received = CounterMetricFamily(
        "edgemeta_received_dropped",
        "Messages received from the broker, for example commands, and dropped, by reason.",
        labels=["reason"],
    )
    for reason, number in snapshot.received_dropped.items():
        received.add_metric([reason], number)
    yield received


def _outbox(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    outbox = snapshot.outbox
    yield GaugeMetricFamily("edgemeta_outbox_messages", "Messages waiting for the broker.", outbox.waiting)
    yield GaugeMetricFamily("edgemeta_outbox_size_bytes", "Size of the messages waiting for the broker.", outbox.bytes)
    on_disk = GaugeMetricFamily(
        "edgemeta_outbox_on_disk",
        "Whether waiting messages are on disk; if not, only in memory. Absent with `mqtt.outbox.max_disk_mb: 0`.",
    )
    if snapshot.wants_disk:
        on_disk.add_metric([], outbox.place == "disk")
    yield on_disk
    yield CounterMetricFamily("edgemeta_outbox_replayed", "Messages sent late, marked as historical.", outbox.replayed)
    dropped = CounterMetricFamily(
        "edgemeta_outbox_dropped",
        "Messages dropped because the outbox was full, they were too old or the disk had damaged them.",
        labels=["reason"],
    )
    dropped.add_metric(["full"], outbox.dropped)
    dropped.add_metric(["expired"], outbox.expired)
    dropped.add_metric(["damaged"], outbox.damaged)
    yield dropped
    yield CounterMetricFamily(
        "edgemeta_outbox_written_bytes",
        "Bytes written to the disk by the outbox, in whole pages.",
        outbox.written_bytes,
    )


def _swaps(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    swaps = CounterMetricFamily("edgemeta_swaps", "Model swaps, by result.", labels=["result"])
    for result, number in snapshot.swaps.items():
        swaps.add_metric([result], number)
    yield swaps
    yield GaugeMetricFamily(
        "edgemeta_model_refused",
        "Whether a model named by the config was refused, so that another is in use.",
        snapshot.model_refused,
    )


HEALTH = (
    ("load", "edgemeta_device_load", "Tasks of the device that run or wait for a processor, over a minute."),
    ("cpu", "edgemeta_device_cpu_ratio", "Share of all processors in use over the last period of `stats.interval`."),
    ("memory", "edgemeta_device_memory_ratio", "Share of the memory that is not available."),
    ("temperature_c", "edgemeta_device_temperature_celsius", "The device's hottest sensor."),
    ("disk", "edgemeta_device_disk_ratio", "Share of the disk with `data_folder` that is in use."),
    ("disk_free_bytes", "edgemeta_device_disk_free_bytes", "Bytes that are free there."),
    ("throttled", "edgemeta_device_throttled", "Whether the device runs slower for heat or want of power."),
)
"""Field of the stats message, metric and meaning; a metric of which the device does not say the value is absent."""


def _device(snapshot: MetricsSnapshot) -> Iterator[Metric]:
    for field, name, meaning in HEALTH:
        value = getattr(snapshot.health, field)
        if value is not None:
            yield GaugeMetricFamily(name, meaning, value)
