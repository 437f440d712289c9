"""Commands to a real service at a real broker: no answer goes to other topics or quotes a file."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.daemon.conftest import DEADLINE, wait_for_line

SECRET = "hunter2: not for you"


class Operator:
    """An MQTT 5 client that subscribes to everything."""

    def __init__(self, port: int) -> None:
        self.heard: list[tuple[str, bytes, bytes | None]] = []
        self._came = threading.Condition()
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_connect = lambda client, *_: client.subscribe("#", 1)
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert subscribed.wait(DEADLINE)

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        with self._came:
            mark = getattr(message.properties, "CorrelationData", None)
            if b'"verb"' in message.payload:
                self.heard.append((message.topic, message.payload, mark))
                self._came.notify_all()

    def ask(self, verb: str, payload: bytes, response_topic: str) -> tuple[str, dict[str, Any]]:
        """Send a command; return the topic of its answer, and the answer."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        properties.ResponseTopic, properties.CorrelationData = response_topic, b"mark"
        with self._came:
            before = len(self.heard)
            self._client.publish(f"edgemeta/test/cmd/{verb}", payload, 1, properties=properties)
            assert self._came.wait_for(lambda: len(self.heard) > before, DEADLINE), "no answer"
            topic, content, mark = self.heard[before]
        assert mark == b"mark"
        return topic, json.loads(content)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def operator(
    broker: Any, write_config: Callable[..., Path], run_daemon: Callable[..., Any], tmp_path: Path
) -> Iterator[Operator]:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "password").write_text(SECRET)
    (models / "link.safetensors").symlink_to(tmp_path / "password")
    (models / "copy.safetensors").write_text(SECRET)
    mqtt = {"host": "127.0.0.1", "port": broker.port, "max_commands_per_second": 1000}
    daemon = run_daemon(write_config(mqtt=mqtt, swap={"model_folder": str(models)}))
    wait_for_line(daemon, "connected to broker")
    wait_for_line(daemon, "camera front: running")
    made = Operator(broker.port)
    yield made
    made.close()


def test_answers_stay_below_the_device_s_own_topics(operator: Operator) -> None:
    topic, answer = operator.ask("reload", b'{"transaction": "1"}', "edgemeta/test/resp/me")
    assert (topic, answer["ok"], answer["transaction"]) == ("edgemeta/test/resp/me", True, "1")
    for elsewhere in ("homeassistant/device/x/config", "edgemeta/test/front/state", "edgemeta/other/cmd/reload"):
        topic, answer = operator.ask("reload", b"", elsewhere)
        assert (topic, answer["ok"]) == ("edgemeta/test/resp/reload", True)
        assert answer["outcome"].endswith("must be below edgemeta/test/ and none of the service's own topics)")
    assert {topic for topic, _, _ in operator.heard} == {"edgemeta/test/resp/me", "edgemeta/test/resp/reload"}


def test_no_answer_quotes_a_file(operator: Operator) -> None:
    """Its first eight bytes would be the length of a model file's header."""
    for model in ("link", "link.safetensors", "copy"):
        payload = json.dumps({"model": model, "transaction": "7"}).encode()
        _, answer = operator.ask("model", payload, "edgemeta/test/resp/me")
        assert (answer["ok"], answer["transaction"]) == (False, "7")
        assert "hunter2" not in answer["outcome"]
        assert str(int.from_bytes(SECRET.encode()[:8], "little")) not in answer["outcome"]
        assert ("leads out of" in answer["outcome"]) == model.startswith("link")


INVALID = {
    b'{"transaction": "7", "model": "a", "model": "b"}': "the key 'model' twice",
    b'{"transaction": "7", "model": NaN}': "found no JSON (NaN)",
    b'{"transaction": "7", "modell": "a"}': "found nothing, expected this key to be given",
}


def test_an_invalid_command_is_answered_with_its_transaction(operator: Operator) -> None:
    for payload, reason in INVALID.items():
        topic, answer = operator.ask("model", payload, "edgemeta/test/resp/me")
        assert (topic, answer["ok"], answer["transaction"]) == ("edgemeta/test/resp/me", False, "7")
        assert reason in answer["outcome"]
