"""How much the outbox writes to its disk while acknowledgements come late, and without a broker.

    python benchmarks/outbox_wear.py [--seconds 60] [--keep]

A real mosquitto behind a proxy that delivers its packets late, ten frame messages a second. The bytes are those that
the kernel counts for the outbox's thread; `--keep` writes results/outbox_wear.json and .md.
"""

import argparse
import queue
import socket
import tempfile
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.records import Drops, FrameLatency, FrameMessage, LabelScore, ModelIdentity
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import Delivery, OutgoingMessage
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.runtime.clock import Clock
from rig.broker import Mosquitto

BOOT = "b" * 32
RATE = 10
SETTLES = 5.0
"""Seconds before the measurement, in which the link learns how late acknowledgements are."""

DAY = 86_400


def outgoing() -> OutgoingMessage:
    """A frame message of the usual size, ready to send."""
    frame = FrameMessage(
        device="bench",
        boot=BOOT,
        camera="front",
        sequence=1,
        captured=datetime.now(timezone.utc),
        clock_synchronized=True,
        model=ModelIdentity(name="resnet8-cifar10", sha256="ab" * 32),
        backend="cpu",
        labels=[LabelScore(label=label, score=0.123456) for label in ("automobile", "truck", "ship")],
        state="automobile",
        latency_us=FrameLatency(wait=100, preprocess=93, inference=56, postprocess=98, total=561),
        dropped=Drops(superseded=0, failed=0, outbox=0, stopped=0),
    )
    return OutgoingMessage("edgemeta/bench/front/frame", frame.model_dump_json().encode(), 1, retain=False, kept=True)


def no_drop(topic: str, number: int) -> None:
    """Fail on drops; there must be none."""
    raise SystemExit(f"{number} messages to {topic} were dropped")


def fail(error: BaseException) -> None:
    """Fail on an error in a thread."""
    raise SystemExit(f"a thread failed: {error}")


class LateProxy:
    """Forwards one connection; what the broker says arrives `delay` seconds later."""

    def __init__(self, to_port: int, delay: float) -> None:
        self._delay = delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, args=(to_port,), daemon=True).start()

    def _serve(self, to_port: int) -> None:
        near, _ = self._listener.accept()
        far = socket.create_connection(("127.0.0.1", to_port))
        late: queue.Queue[tuple[float, bytes]] = queue.Queue()
        threading.Thread(target=self._deliver, args=(late, near), daemon=True).start()
        threading.Thread(target=self._receive, args=(far, late), daemon=True).start()
        with suppress(OSError):
            while content := near.recv(65_536):
                far.sendall(content)
            far.shutdown(socket.SHUT_RDWR)

    def _receive(self, far: socket.socket, late: "queue.Queue[tuple[float, bytes]]") -> None:
        with suppress(OSError):
            while content := far.recv(65_536):
                late.put((time.monotonic() + self._delay, content))

    @staticmethod
    def _deliver(late: "queue.Queue[tuple[float, bytes]]", near: socket.socket) -> None:
        with suppress(OSError):
            while True:
                due, content = late.get()
                time.sleep(max(0.0, due - time.monotonic()))
                near.sendall(content)


class Ignored:
    """Nobody asks for the deliveries here."""

    def acknowledged(self, delivery: Delivery) -> None:
        """Ignore it."""

    def refused(self, delivery: Delivery) -> None:
        """Ignore it."""


def written(folder: Path, port: int, seconds: float) -> dict[str, Any]:
    """Send for so many seconds; return the bytes written, those of the payloads, and what still waits."""
    config = MqttConfig(host="127.0.0.1", port=port)
    outbox = Outbox(config.outbox, no_drop)
    writer = OutboxWriter(outbox, config.outbox, folder / f"{port}.sqlite3", BOOT, Clock(), fail)
    link = MqttLink(config, f"wear{port}", f"edgemeta/bench{port}/availability", outbox, Ignored(), fail)
    writer.start()
    link.start(10)
    payload = before = 0
    for number in range(int((SETTLES + seconds) * RATE)):
        if number == int(SETTLES * RATE):
            payload, before = 0, outbox.disk.written_bytes
        message = outgoing()
        payload += len(message.payload)
        link.send(message)
        time.sleep(1 / RATE)
    size = outbox.disk.written_bytes - before
    link.close(0.1)
    writer.close(5)
    return {
        "payload_bytes": payload,
        "written_bytes": size,
        "times_the_payload": round(size / payload, 1),
        "written_mb_per_day": round(size / seconds * DAY / 1e6),
    }


def main() -> None:
    """Measure each line in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--keep", action="store_true", help="write the results to benchmarks/results/")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        broker = Mosquitto(Path(name))
        broker.start()
        for delay in (0.05, 0.35, 2.0):
            proxy = LateProxy(broker.port, delay)
            rows.append(
                {"line": f"acknowledgements {delay:g} s late"} | written(Path(name), proxy.port, arguments.seconds)
            )
        broker.stop()
        rows.append({"line": "no broker"} | written(Path(name), broker.port, arguments.seconds))
    table = "| 10 frames per second | payload | written | times the payload | per day |\n|---|---|---|---|---|\n"
    for row in rows:
        table += (
            f"| {row['line']} | {row['payload_bytes'] / 1e6:.2f} MB | {row['written_bytes'] / 1e6:.2f} MB "
            f"| {row['times_the_payload']} | {row['written_mb_per_day']} MB |\n"
        )
    print(table)
    if arguments.keep:
        command = "python benchmarks/outbox_wear.py --keep"
        write_json("outbox_wear", command, {"seconds": arguments.seconds, "lines": rows})
        write_markdown("outbox_wear", command, table)


if __name__ == "__main__":
    main()
