"""Sends commands to a device and waits for their answers."""

import json
import threading
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from rig.waiting import TIMEOUT, RigError


def send_command(port: int, device: str, verb: str, within: float = TIMEOUT, **content: Any) -> dict[str, Any]:
    """Send one command; return its answer. Raises RigError without one within so many seconds."""
    answers: list[dict[str, Any]] = []
    came = threading.Event()

    def on_message(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        answers.append(json.loads(message.payload))
        came.set()

    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe(f"edgemeta/{device}/resp/{verb}", qos=1)
    client.on_subscribe = lambda client, *_: client.publish(f"edgemeta/{device}/cmd/{verb}", json.dumps(content), qos=1)
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_start()
    try:
        if not came.wait(within):
            raise RigError(f"waited {within:g} s for the answer to command {verb} {content}")
    finally:
        client.disconnect()
        client.loop_stop()
    return answers[0]
