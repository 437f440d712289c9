"""The AsyncAPI 3 document of a device: generated from the channels, the message records and the config's defaults."""

from typing import Any

from edgemeta import __version__
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.channels import AVAILABILITY, CHANNELS, Channel
from edgemeta.daemon.messages.records import OFFLINE, ONLINE

BINDING = "0.2.0"
"""Version of AsyncAPI's mqtt binding."""

PARAMETERS = {
    "base": "First level(s) of every topic: `mqtt.base_topic` of the config.",
    "device": "The device: `device` of the config.",
    "camera": "The camera: its name under `cameras` in the config.",
    "verb": "The command that is answered: `reload`, `model`, `set`, `restart` or `rollout`.",
    "sha256": "SHA-256 of the model file.",
    "part": "Number of the part, from 0.",
    "label": "The label, or a zone, `/` and a label; `/`, `+` and `#` in it are `-`.",
}


def document() -> dict[str, Any]:
    """Return the document: one channel, one operation and one message for each kind of topic."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "edgemeta",
            "version": __version__,
            "description": "Messages of a device: every classified frame of its cameras, with scores and latencies.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {"broker": _server()},
        "channels": {channel.name: _channel(channel) for channel in CHANNELS},
        "operations": {f"{action_on(channel)}_{channel.name}": _operation(channel) for channel in CHANNELS},
        "components": {
            "messages": {channel.name: _message(channel) for channel in CHANNELS},
            "schemas": {channel.name: schema(channel) for channel in CHANNELS},
        },
    }


def action_on(channel: Channel) -> str:
    """Return whether the service sends or receives on a channel."""
    return "receive" if channel.received else "send"


def schema(channel: Channel) -> dict[str, Any]:
    """Return the JSON Schema of the messages on a channel."""
    if channel.message is None and channel.media != "text/plain":
        return {"title": channel.name.capitalize(), "type": "string", "contentMediaType": channel.media}
    if channel.message is None:
        return {"title": "Availability", "type": "string", "enum": [ONLINE, OFFLINE]}
    return channel.message.model_json_schema(
        mode="serialization", ref_template=f"#/components/schemas/{channel.name}/$defs/{{model}}"
    )


def _server() -> dict[str, Any]:
    defaults = MqttConfig()
    return {
        "host": f"{defaults.host}:{defaults.port}",
        "protocol": "mqtt",
        "protocolVersion": str(defaults.version),
        "description": "The broker of the config: `mqtt.host` and `mqtt.port`.",
        "bindings": {
            "mqtt": {
                "clientId": "edgemeta-{device}",
                "keepAlive": defaults.keepalive,
                "lastWill": {
                    "topic": AVAILABILITY.address,
                    "qos": MqttConfig().qos,
                    "message": OFFLINE,
                    "retain": True,
                },
                "bindingVersion": BINDING,
            }
        },
    }


def _channel(channel: Channel) -> dict[str, Any]:
    return {
        "address": channel.address,
        "summary": channel.summary,
        "parameters": {
            name: {"description": text} for name, text in PARAMETERS.items() if f"{{{name}}}" in channel.address
        },
        "messages": {channel.name: {"$ref": f"#/components/messages/{channel.name}"}},
    }


def _operation(channel: Channel) -> dict[str, Any]:
    return {
        "action": action_on(channel),
        "channel": {"$ref": f"#/channels/{channel.name}"},
        "summary": channel.summary,
        "bindings": {
            "mqtt": {
                "qos": MqttConfig().qos,
                "retain": channel.retain,
                "bindingVersion": BINDING,
            }
        },
    }


def _message(channel: Channel) -> dict[str, Any]:
    return {
        "name": channel.name,
        "contentType": channel.media,
        "payload": {"$ref": f"#/components/schemas/{channel.name}"},
    }
