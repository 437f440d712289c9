"""A bare publisher in twenty lines: what publishing costs without the service. `frame_cost.py` runs it.

    python benchmarks/bare_publisher.py PORT SECONDS FILE

Publishes the lines of FILE (encoded before) by MQTT 5 at QoS 1, 30 per second, with paho's own thread, and does nothing
else. Prints a JSON list: for each second, the microseconds of CPU time of the whole process per message.
"""

import json
import sys
import time
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

RATE = 30


def publish(port: int, seconds: int, payloads: list[bytes]) -> list[float]:
    """Publish for so many seconds; return the CPU time per message in each of them, in microseconds."""
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    costs = []
    due = time.monotonic()
    for second in range(seconds):
        spent = time.process_time_ns()
        for number in range(RATE):
            client.publish("edgemeta/bare/clip/frame", payloads[(second * RATE + number) % len(payloads)], qos=1)
            due += 1 / RATE
            time.sleep(max(0.0, due - time.monotonic()))
        costs.append((time.process_time_ns() - spent) / RATE / 1000)
    client.disconnect()
    client.loop_stop()
    return costs


if __name__ == "__main__":
    port, seconds, path = sys.argv[1:]
    lines = Path(path).read_bytes().splitlines()
    json.dump(publish(int(port), int(seconds), lines), sys.stdout)
