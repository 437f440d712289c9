"""The table of the metrics, from the families of a snapshot that has each of them."""

from prometheus_client import Metric

from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState, Drops, ModelIdentity
from edgemeta.daemon.messages.stats import BrokerFailures, BrokerStats, CameraStats, DeviceHealth, OutboxStats
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.metrics.prometheus import families
from edgemeta.daemon.metrics.snapshot import CameraSnapshot, MetricsSnapshot

SUFFIXES = {"counter": "_total", "info": "_info"}


def table() -> str:
    """A row for each metric, in the order of the answer."""
    rows = map(row, families(_snapshot()))
    return "\n".join(("| metric | type | labels | what it says |", "|---|---|---|---|", *rows))


def row(family: Metric) -> str:
    """Name, type, labels and meaning of a metric that has a sample."""
    labels = sorted({name for sample in family.samples for name in sample.labels} - {"le"})
    listed = ", ".join(f"`{label}`" for label in labels)
    kind = "gauge" if family.type == "info" else family.type
    return f"| `{family.name}{SUFFIXES.get(family.type, '')}` | {kind} | {listed} | {family.documentation} |"


def _snapshot() -> MetricsSnapshot:
    """A service with one camera, which has a sample of every metric."""
    counts = CameraStats(
        captured=0, processed=0, published=0, dropped=Drops(superseded=0, failed=0, outbox=0, stopped=0), counts={"": 0}
    )
    camera = CameraSnapshot(
        counts=counts,
        state=CameraState.RUNNING,
        failures=0,
        outages=0,
        runs=0,
        damaged=0,
        last_frame_age=0,
        delay=0,
        frame_interval=0,
        model=ModelIdentity(name="", sha256="0" * 64),
        backend="",
        appeared={"": 0},
        events={("", ""): 0},
    )
    failures = BrokerFailures(**dict.fromkeys(BrokerFailures.model_fields, 0))
    link = BrokerStats(connects=0, published=0, refused=0, failures=failures, last_failure=None)
    return MetricsSnapshot(
        device="",
        version="",
        config_sha256="",
        uptime=0,
        clock_synchronized=True,
        hanging=0,
        overloaded=False,
        thread_delay=0,
        cameras={"": camera},
        stages=StageLatencies().histograms(),
        broker=BrokerState.CONNECTED,
        link=link,
        outbox=OutboxStats(place="disk", reason=None, waiting=0, bytes=0, replayed=0, dropped=0, expired=0),
        wants_disk=True,
        received_dropped={"": 0},
        swaps={"": 0},
        model_refused=False,
        health=DeviceHealth(load=0, cpu=0, memory=0, temperature_c=0, disk=0, disk_free_bytes=0, throttled=False),
    )
