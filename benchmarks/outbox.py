"""Costs of the outbox: commits to its file, and a message on its way to a broker that acknowledges quickly.

    python benchmarks/outbox.py --keep      writes benchmarks/results/outbox.json and .md

Commits: messages of one poll together, `sync` as once a second. CPU time is that of the thread; wall time depends on
the disk and on other users of the machine. The way: `Publisher.encode` of a frame message, the outbox, the link,
mosquitto and its acknowledgement, at 30 messages per second; the CPU time is that of all threads of this process, less
what the same threads take while nothing is sent.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.channels import FRAME, Topics
from edgemeta.daemon.messages.records import Drops, FrameLatency, FrameMessage, LabelScore, ModelIdentity
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.store import Store
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.runtime.clock import Clock
from rig.broker import Mosquitto

BOOT = "b" * 32
BATCHES = (1, 2, 10, 100)
RATE = 30.0


def frame(sequence: int) -> FrameMessage:
    """Return a frame message of the usual size."""
    return FrameMessage(
        device="bench",
        boot=BOOT,
        camera="front",
        sequence=sequence,
        captured=datetime.now(timezone.utc),
        clock_synchronized=True,
        model=ModelIdentity(name="resnet8-cifar10", sha256="ab" * 32),
        backend="cpu",
        labels=[LabelScore(label=label, score=0.123456) for label in ("automobile", "truck", "ship")],
        state="automobile",
        latency_us=FrameLatency(wait=100, preprocess=93, inference=56, postprocess=98, total=561),
        dropped=Drops(superseded=0, failed=0, outbox=0, stopped=0),
    )


def outgoing() -> OutgoingMessage:
    """Return a frame message ready to send."""
    return OutgoingMessage(
        "edgemeta/bench/front/frame", frame(1).model_dump_json().encode(), 1, retain=False, kept=True
    )


def commits(folder: Path, batch: int, sync: bool, repeats: int) -> dict[str, Any]:
    """Time so many commits of a batch, each with the commit that removes the batch before it."""
    store = Store(folder / f"{batch}-{sync}.sqlite3", BOOT)
    walls, cpu, first = [], 0, 0
    for _ in range(repeats):
        added = [(Delivery(outgoing()), time.time_ns()) for _ in range(batch)]
        begun, spent = time.perf_counter_ns(), time.thread_time_ns()
        numbers = store.add(added, sync)
        if first:
            store.remove(first, numbers[0] - 1)
        walls.append(time.perf_counter_ns() - begun)
        cpu += time.thread_time_ns() - spent
        first = numbers[0]
    store.close()
    walls.sort()
    return {
        "batch": batch,
        "synchronous": "FULL" if sync else "NORMAL",
        "cpu_us_per_message": round(cpu / repeats / batch / 1000, 1),
        "commit_us_median": round(median(walls) / 1000),
        "commit_us_p99": round(walls[int(0.99 * len(walls))] / 1000),
    }


class Count:
    """Collects the time from encoding to acknowledgement of each frame message, in ns."""

    def __init__(self) -> None:
        self.trips: list[int] = []

    def acknowledged(self, delivery: Delivery) -> None:
        """Add one message."""
        if delivery.message.kept:
            self.trips.append(time.monotonic_ns() - delivery.message.made_ns)


def way(folder: Path, port: int, seconds: float) -> dict[str, Any]:
    """Measure CPU time and latency of messages that the broker acknowledges at once."""
    config = MqttConfig(host="127.0.0.1", port=port)
    outbox = Outbox(config.outbox, no_drop)
    writer = OutboxWriter(outbox, config.outbox, folder / "way.sqlite3", BOOT, Clock(), fail)
    count = Count()
    link = MqttLink(config, "bench", "edgemeta/bench/availability", outbox, count, fail)
    publisher = Publisher(link, Topics("edgemeta", "bench"), 1)
    writer.start()
    link.start(10)
    messages = [frame(sequence) for sequence in range(1, int(seconds * RATE) + 1)]
    calls: list[int] = []

    def send() -> None:
        for message in messages:
            begun = time.perf_counter_ns()
            publisher.send(publisher.encode(FRAME, message, "front"))
            calls.append(time.perf_counter_ns() - begun)
            time.sleep(1 / RATE)

    def wait() -> None:
        for _ in messages:
            time.sleep(1 / RATE)

    files = sorted(folder.glob("way.sqlite3*"))
    before = [path.stat().st_mtime_ns for path in files]
    idle = cpu_of(wait)
    busy = cpu_of(send)
    untouched = [path.stat().st_mtime_ns for path in files] == before
    link.close(5)
    writer.close(5)
    return {
        "messages": len(calls),
        "acknowledged": len(count.trips),
        "cpu_us_per_message": round((busy - idle) / len(calls) / 1000, 1),
        "idle_cpu_us_per_second": round(idle / seconds / 1000, 1),
        "encode_and_send_us_median": round(median(calls) / 1000, 1),
        "until_acknowledged_us_median": round(median(count.trips) / 1000),
        "nothing_written_to_disk": untouched,
    }


def cpu_of(work: Callable[[], None]) -> int:
    """CPU time in ns that all threads of this process take while something is done."""
    begun = time.process_time_ns()
    work()
    return time.process_time_ns() - begun


def no_drop(topic: str, number: int) -> None:
    """Fail on drops; there must be none."""
    raise SystemExit(f"{number} messages to {topic} were dropped")


def fail(error: BaseException) -> None:
    """Fail on an error in a thread."""
    raise SystemExit(f"a thread failed: {error}")


def table(rows: list[dict[str, Any]], normal_operation: dict[str, Any]) -> str:
    """Return the figures as text."""
    lines = [
        "| messages per commit | synchronous | CPU per message | commit, median | commit, p99 |",
        "|---|---|---|---|---|",
        *(
            f"| {row['batch']} | {row['synchronous']} | {row['cpu_us_per_message']} µs "
            f"| {row['commit_us_median']} µs | {row['commit_us_p99']} µs |"
            for row in rows
        ),
        "",
        "With a broker that acknowledges at once (mosquitto on this machine, QoS 1, 30 messages per second) a message "
        f"takes {normal_operation['cpu_us_per_message']} µs of CPU in all threads together, from its encoding to the "
        f"broker's acknowledgement; encoding and sending it takes {normal_operation['encode_and_send_us_median']} µs "
        "of the caller (median). Nothing is written to the disk. An idle link and outbox take "
        f"{normal_operation['idle_cpu_us_per_second']} µs of CPU per second.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder", type=Path, help="where the outbox files lie meanwhile; default: the temporary folder"
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/outbox.json and .md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        rows = [commits(folder, batch, sync, 100 if sync else 1000) for sync in (False, True) for batch in BATCHES]
        broker = Mosquitto(folder)
        broker.start()
        try:
            normal_operation = way(folder, broker.port, arguments.seconds)
        finally:
            broker.stop()
    if arguments.keep:
        command = "python benchmarks/outbox.py --keep"
        write_json("outbox", command, {"commits": rows, "normal_operation": normal_operation})
        write_markdown("outbox", command, table(rows, normal_operation))
    print(json.dumps({"commits": rows, "normal_operation": normal_operation}, indent=2))


if __name__ == "__main__":
    main()
