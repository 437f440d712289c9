"""`edgemeta fleet forget`: what devices that are gone have left at a real broker, and what stays."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import paho.mqtt.publish
import pytest

from rig.broker import Mosquitto
from rig.protocol_device import ProtocolDevice
from tests.cli.fleet.test_rollout import at, end, listed, retained

pytestmark = pytest.mark.gate("5 to 15 s each: commands that listen for 3 s")

Start = Callable[..., "subprocess.Popen[str]"]
Device = Callable[..., ProtocolDevice]
DISCOVERY = "homeassistant/device/edgemeta-"


def retain(broker: Mosquitto, *topics: str) -> None:
    messages: list[Any] = [(topic, "left", 1, True) for topic in topics]
    paho.mqtt.publish.multiple(messages, hostname="127.0.0.1", port=broker.port)


def test_nothing_of_a_device_stays_and_all_of_the_others(fleet: Start, broker: Mosquitto, device: Device) -> None:
    device("a", broker)
    device("b", broker).close()
    assert end(fleet("rollout", "resnet8-cifar10", *at(broker), "--settle", "0"))[0] == 0
    assert retained(broker, "edgemeta/.models/#") != [], "b has still to come for them"
    retain(broker, "edgemeta/b/front/state", "edgemeta/b/front/count/yard/car", "edgemeta/bb/front/state")
    retain(broker, f"{DISCOVERY}b/config", f"{DISCOVERY}b/front/config", f"{DISCOVERY}bb/config")
    others = [each for each in retained(broker, "edgemeta/#") if each.startswith(("edgemeta/a/", "edgemeta/bb/"))]
    code, out, complaint = end(fleet("forget", "b", *at(broker)))
    assert (code, complaint) == (0, "")
    assert out == "b: 7 messages cleared\n"
    assert retained(broker, "edgemeta/#") == others
    assert retained(broker, "homeassistant/#") == [f"{DISCOVERY}bb/config 4"]
    assert set(listed(fleet, broker)) == {"a"}
    assert end(fleet("undo", *at(broker)))[0] == 0
    assert retained(broker, "edgemeta/b/#") == [], "it is no longer of the rollout"


def test_what_cannot_be_forgotten_is_one_sentence_and_nothing_is_cleared(
    fleet: Start, broker: Mosquitto, device: Device
) -> None:
    device("a", broker)
    device("b", broker).close()
    before = retained(broker, "#")
    for names, expected in (
        (("b", "a"), "a is online, and would publish again: stop its service first"),
        (("b", "c"), "c: the broker retains nothing of such a device below edgemeta/"),
        (("+",), "found the device '+', expected 1 to 64 letters (a to z), digits, '-' or '_'"),
    ):
        code, out, complaint = end(fleet("forget", *names, *at(broker)))
        assert (code, out, complaint) == (1, "", f"edgemeta: {expected}\n")
    assert retained(broker, "#") == before
    code, out, _ = end(fleet("forget", "b", *at(broker), "--json"))
    assert json.loads(out) == {"cleared": {"b": ["edgemeta/b/availability", "edgemeta/b/info"]}}
