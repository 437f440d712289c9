"""A client that may publish anything at the broker: the service continues unchanged."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edgemeta.model.zoo import find
from rig.broker import Mosquitto
from rig.subscriber import retained
from rig.system import System
from rig.waiting import wait_until

GOOD = {
    "model": b'{"model": "damaged", "camera": "front", "transaction": "1"}',
    "reload": b'{"transaction": "2"}',
}
TOPICS = ("cmd/model", "cmd/reload", "cmd/other", "cmd", "resp/other")
BATCH = 16
"""Commands that are sent before their answers are awaited: more would be dropped, as an inbox holds 32."""

WARM_AFTER = 10
"""Batches after which the process holds what a change needs: allocators keep it for the next one."""

GROWTH_KIB = 30_000


class Publisher:
    """Sends to a device, and counts the answers to commands."""

    def __init__(self, port: int, device: str) -> None:
        self._base = f"edgemeta/{device}"
        self._answered = threading.Semaphore(0)
        self.outcomes: list[dict[str, Any]] = []
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.max_queued_messages_set(0)
        self._client.on_connect = lambda client, *_: client.subscribe(f"{self._base}/resp/+", qos=1)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert subscribed.wait(60)

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        content = json.loads(message.payload) if message.payload.startswith(b'{"schema_version"') else None
        if content is not None:
            self.outcomes.append(content)
            self._answered.release()

    def send(self, topic: str, payload: bytes) -> None:
        self._client.publish(f"{self._base}/{topic}", payload, qos=1)

    def answers(self, count: int) -> None:
        """Wait for so many."""
        for _ in range(count):
            assert self._answered.acquire(timeout=60), "a command was not answered"

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def hostile(verb: str, chance: random.Random) -> bytes:
    """A command changed in a few places, or something else altogether."""
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(500))
    if kind == 1:
        return chance.choice([b"[", b"{", b'{"model":', b"9", b" "]) * chance.randrange(1, 5_000)
    payload = bytearray(GOOD[verb])
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(payload) + 1)
        payload[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
    return bytes(payload)


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """A model file that is cut, has its header changed, or is none at all."""
    content = bytearray(whole)
    match chance.randrange(4):
        case 0:
            return bytes(content[: chance.randrange(len(content))])
        case 1:
            return chance.randbytes(chance.randrange(1000))
        case 2:
            at = chance.randrange(8, 4000)
            content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(1, 4))
        case _:  # the header's length
            content[:8] = chance.randrange(2**64).to_bytes(8, "little")
    return bytes(content)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[System]:
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    models = tmp_path / "models"
    models.mkdir()
    cameras = {"front": {"source": "synthetic://", "fps": 10}}
    keys = {"cameras": cameras, "swap": {"model_folder": str(models)}, "mqtt": {"max_commands_per_second": 1000}}
    made = System(tmp_path, "hostile", keys, watchdog=20.0)
    try:
        made.write_config()
        made.start_service().ready()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize(
    "count", [320, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.fuzz, pytest.mark.timeout(3600)])]
)
def test_nothing_that_is_published_changes_the_service(
    rig: System, count: int, fed: Callable[[str, int], None]
) -> None:
    chance = random.Random(11)
    whole = find("resnet8-cifar10").read_bytes()
    rig.subscriber.next_frame("front").within(0)
    info = retained(rig.broker.port)["edgemeta/hostile/info"]
    held: dict[str, int] = {}
    publisher = Publisher(rig.broker.port, rig.device)
    try:
        for number in range(count // BATCH):
            (rig.folder / "models" / "damaged.safetensors").write_bytes(damaged(whole, chance))
            for _ in range(BATCH):
                verb = chance.choice(["model", "reload"])
                publisher.send(f"cmd/{verb}", hostile(verb, chance))
            publisher.answers(BATCH)
            if number == WARM_AFTER:
                held = rig.running.holds
            if number % 20 == 0:
                for topic in TOPICS:  # too long for the service, or nothing that it listens to
                    publisher.send(topic, bytes(chance.choice([70_000, 1_000_000, 4_000_000])))
    finally:
        publisher.close()
    fed("MQTT payloads of commands to a running service", count)
    refused = [one["outcome"] for one in publisher.outcomes if not one["ok"]]
    assert all(outcome.isprintable() for outcome in refused)
    assert len(refused) > count / 2
    assert {one["outcome"] for one in publisher.outcomes if one["ok"]} <= {"config reloaded: nothing changed"}
    rig.subscriber.next_frame("front").within(0)
    assert retained(rig.broker.port)["edgemeta/hostile/info"] == info
    assert len(rig.subscriber.audit.boots) == 1
    wait_until(lambda: rig.running.holds["rss_kib"] < held["rss_kib"] + GROWTH_KIB, "memory to be given back")
    rig.settle()
    assert rig.lost()["frames"] == 0
    assert "Traceback" not in rig.log.read_text()
    assert rig.running.stop()[1] == 0
