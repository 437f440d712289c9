"""How many messages one mosquitto takes, and what many devices need.

    python reliability/broker_load.py --keep      writes benchmarks/results/broker-load.{json,md}, in three minutes

A service that follows objects in photographs says how many messages a camera makes, and how large they are. Then 100,
1,000 and 4,000 protocol-level devices (rig/mqtt_crowd.py) publish messages of that size at QoS 1 as fast as the broker
acknowledges, to one subscriber of everything. They run on the machine of the broker and take its processors, so that
messages per second of the broker's own processor time say more than those of a second. What 10,000 devices need is a
prediction from both: nothing so large was run.
"""

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.result_file import write_json, write_markdown
from rig.broker import Mosquitto
from rig.mqtt_crowd import Crowd
from rig.service_manager import ManagedService
from rig.waiting import RigError, wait_until

BROKER = ("allow_anonymous true", "max_queued_messages 100000")
SETTLES_S = 5.0
DEVICES = 10_000
BUSY = 0.5
"""Part of its processor that a broker should use: the rest is for what comes at once, as after an outage."""
CAMERA = "synthetic://?show=photographs"
FRAMES = {"every frame, 5/s": "every", "changes only": "change"}


def messages_of_a_camera(frames: str, seconds: float) -> dict[str, Any]:
    """What a service with one camera publishes: messages and bytes per second, by kind of topic."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()

    def take(_client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        kind = message.topic.rpartition("/")[2]
        counts[kind] += 1
        sizes[kind] += len(message.payload) + len(message.topic)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        broker = Mosquitto(folder, BROKER)
        broker.start()
        config = {
            "device": "one",
            "cameras": {"front": {"source": CAMERA, "fps": 5}},
            "publish": {"frames": frames},
            "mqtt": {"port": broker.port},
            "data_folder": name,
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        service = ManagedService(folder / "config.yaml", folder / "log")
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.on_message = take
        client.on_connect = lambda *_: client.subscribe("edgemeta/#")
        try:
            service.ready()
            client.connect("127.0.0.1", broker.port)
            client.loop_start()
            wait_until(lambda: counts["stats"] > 0, "stats")
            time.sleep(SETTLES_S)
            counts.clear()
            sizes.clear()
            began = time.monotonic()
            time.sleep(seconds)
            took, found, total = time.monotonic() - began, dict(counts), dict(sizes)
        finally:
            client.disconnect()
            client.loop_stop()
            service.close()
            broker.stop()
    return {kind: {"per_s": found[kind] / took, "bytes": total[kind] / found[kind]} for kind in sorted(found)}


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def load(devices: int, size: int, seconds: float) -> dict[str, Any]:
    """Let so many devices publish messages of so many bytes, and measure their broker."""
    with tempfile.TemporaryDirectory() as name:
        broker = Mosquitto(Path(name), BROKER)
        broker.start()
        try:
            assert broker.process is not None
            return asyncio.run(_load(broker.process.pid, broker.port, devices, size, seconds))
        finally:
            broker.stop()


async def _load(pid: int, port: int, devices: int, size: int, seconds: float) -> dict[str, Any]:
    memory = resident_bytes(pid)
    crowd = Crowd(port, devices, b"x" * size)
    began = time.monotonic()
    try:
        await crowd.join()
        joined, connected = time.monotonic() - began, resident_bytes(pid)
        used = processor_seconds(pid)
        acknowledged, received = await crowd.publish(seconds)
        used = processor_seconds(pid) - used
        loaded = resident_bytes(pid)
    finally:
        crowd.leave()
    return {
        "devices": devices,
        "seconds_to_connect": round(joined, 2),
        "messages_per_s": round(acknowledged / seconds),
        "received_per_s": round(received / seconds),
        "messages_per_processor_s": round(acknowledged / used),
        "processors": round(used / seconds, 2),
        "bytes_per_connection": round((connected - memory) / devices),
        "bytes_per_connection_loaded": round((loaded - memory) / devices),
    }


def needs(camera: Mapping[str, Mapping[str, float]], loads: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What DEVICES devices with one camera each need, from one camera's messages and the slowest measured load."""
    rate = DEVICES * sum(each["per_s"] for each in camera.values())
    traffic = DEVICES * sum(each["per_s"] * each["bytes"] for each in camera.values())
    return {
        "messages_per_s": round(rate),
        "megabits_per_s": round(traffic * 8 / 1e6, 1),
        "gigabytes_a_day": round(traffic * 86_400 / 1e9, 1),
        "brokers": math.ceil(rate / (BUSY * min(each["messages_per_processor_s"] for each in loads))),
        "megabytes_of_connections": round(DEVICES * max(each["bytes_per_connection_loaded"] for each in loads) / 1e6),
    }


def measure(counts: Sequence[int], seconds: float) -> dict[str, Any]:
    """Measure a camera's messages, then the broker with each number of devices."""
    cameras = {name: messages_of_a_camera(frames, 2 * seconds) for name, frames in FRAMES.items()}
    size = round(next(iter(cameras.values()))["frame"]["bytes"])
    loads = [load(count, size, seconds) for count in counts]
    predicted = {name: needs(camera, loads) for name, camera in cameras.items()}
    load_average = round(os.getloadavg()[0], 1)
    return {
        "bytes_of_a_message": size,
        "cameras": cameras,
        "loads": loads,
        f"predicted_for_{DEVICES}": predicted,
        "load": load_average,
    }


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows of equal keys as Markdown."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *([str(row[key]) for key in head] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(outcome: Mapping[str, Any]) -> str:
    """The result as Markdown."""
    kinds = [
        {"frames": name, "topic": kind, "messages/s": f"{each['per_s']:.2f}", "bytes": round(each["bytes"])}
        for name, camera in outcome["cameras"].items()
        for kind, each in camera.items()
    ]
    predicted = [{"frames": name, **each} for name, each in outcome[f"predicted_for_{DEVICES}"].items()]
    return "\n\n".join((
        "What one camera publishes, topic and payload, of photographs that move:",
        table(kinds),
        f"Devices that publish {outcome['bytes_of_a_message']} bytes at QoS 1 as fast as one mosquitto acknowledges, "
        "with one subscriber, all on one machine; the memory is the broker's own, the kernel's buffers come on top:",
        table(outcome["loads"]),
        f"Predicted for {DEVICES:,} devices with one camera each, brokers of one core at {BUSY:.0%}:",
        table(predicted),
        f"Load average at the end: {outcome['load']}.",
    ))  # fmt: skip


def main() -> None:
    """Read the command line, run, write the result files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[100, 1000, 4000])
    parser.add_argument("--seconds", type=float, default=15.0, help="of each load; a camera is watched twice as long")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/broker-load.json and .md")
    arguments = parser.parse_args()
    try:
        outcome = measure(arguments.devices, arguments.seconds)
    except (RigError, OSError) as error:
        sys.exit(f"broker_load: {error}")
    print(page(outcome))
    if arguments.keep:
        command = "python reliability/broker_load.py --keep"
        write_json("broker-load", command, outcome)
        write_markdown("broker-load", command, page(outcome))


if __name__ == "__main__":
    main()
