"""reliability/broker_load.py: its packets are those of MQTT, its arithmetic is right, and a short load runs."""

import pytest

from reliability.broker_load import DEVICES, load, needs
from rig.mqtt_crowd import packet


@pytest.mark.parametrize(
    ("length", "coded"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16384, b"\x80\x80\x01")]
)
def test_a_length_is_coded_as_the_specification_says(length: int, coded: bytes) -> None:
    assert packet(0x30, b"x" * length) == b"\x30" + coded + b"x" * length


def test_what_ten_thousand_devices_need() -> None:
    camera = {"frame": {"per_s": 5.0, "bytes": 800}, "stats": {"per_s": 0.1, "bytes": 2000}}
    loads = [
        {"messages_per_processor_s": 50_000, "bytes_per_connection_loaded": 4000},
        {"messages_per_processor_s": 20_000, "bytes_per_connection_loaded": 5000},
    ]
    assert DEVICES == 10_000
    assert needs(camera, loads) == {
        "messages_per_s": 51_000,
        "megabits_per_s": 336.0,
        "gigabytes_a_day": 3628.8,
        "brokers": 6,
        "megabytes_of_connections": 50,
    }


@pytest.mark.usefixtures("mosquitto")
def test_every_device_publishes_and_the_subscriber_receives() -> None:
    outcome = load(20, 500, 2.0)
    assert outcome["devices"] == 20
    assert outcome["messages_per_s"] > 20 * 10 / 2.0  # more than the first window
    assert outcome["received_per_s"] >= 0.9 * outcome["messages_per_s"]
    assert outcome["messages_per_processor_s"] > 0
