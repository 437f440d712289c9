"""The demo's broker transports messages on loopback and leaks nothing."""

import socket
import threading

import pytest

pytest.importorskip("amqtt", reason="needs amqtt: pip install 'edgemeta[demo]'")

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from edgemeta.cli.demo.broker import DemoBroker
from edgemeta.cli.demo.run import Subscriber


def test_a_message_goes_from_a_publisher_to_the_subscriber() -> None:
    with DemoBroker() as broker, Subscriber(broker.host, broker.port, "a/#") as subscriber:
        publisher = Client(CallbackAPIVersion.VERSION2)
        publisher.connect(broker.host, broker.port)
        publisher.loop_start()
        publisher.publish("a/b", b"hello", qos=1).wait_for_publish(5)
        arrival = subscriber.next(5)
        publisher.disconnect()
        publisher.loop_stop()
    assert arrival is not None
    assert (arrival.topic, arrival.payload) == ("a/b", b"hello")


def test_nothing_listens_and_no_thread_runs_once_it_has_closed() -> None:
    with DemoBroker() as broker, Subscriber(broker.host, broker.port, "#"):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port), 5)
    assert "demo-broker" not in [thread.name for thread in threading.enumerate()]


def test_two_brokers_run_side_by_side() -> None:
    with DemoBroker() as one, DemoBroker() as other:
        assert one.port != other.port
