"""A small model of what Home Assistant does with MQTT discovery, written from its documentation, not from our code.

It knows device discovery and nine platforms, checks what Home Assistant checks, and also refuses what Home Assistant
would pass over in silence: keys that it does not know.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

TOPIC = re.compile(r"homeassistant/device/(?:[a-zA-Z0-9_-]+/)?([a-zA-Z0-9_-]+)/config")
SHORT = {
    "cmps": "components",
    "o": "origin",
    "dev": "device",
    "p": "platform",
    "ids": "identifiers",
    "mf": "manufacturer",
    "sw": "sw_version",
}
SHARED = {"availability", "availability_mode", "state_topic", "qos", "encoding"}
COMMON = {
    *("platform", "name", "unique_id", "state_topic", "value_template", "device_class", "entity_category", "icon"),
    *("json_attributes_topic", "json_attributes_template", "expire_after", "availability", "availability_mode", "qos"),
    *("enabled_by_default", "default_entity_id", "force_update"),
}
UPDATE_KEYS = {
    *("installed_version", "latest_version", "title", "release_summary", "release_url", "entity_picture"),
    *("in_progress", "update_percentage"),
}
"""Keys of the state of an update (MQTT_JSON_UPDATE_SCHEMA); None is only valid for a percentage."""
CONTROL = COMMON - {"expire_after", "force_update"} | {"command_topic", "retain", "optimistic"}
KEYS = {
    "sensor": COMMON | {"options", "state_class", "unit_of_measurement", "suggested_display_precision"},
    "binary_sensor": COMMON | {"payload_on", "payload_off", "off_delay"},
    "image": COMMON - {"state_topic", "value_template", "device_class", "expire_after", "force_update"}
    | {"image_topic", "content_type", "image_encoding"},
    "switch": CONTROL | {"payload_on", "payload_off", "state_on", "state_off"},
    "number": CONTROL | {"command_template", "min", "max", "step", "mode", "unit_of_measurement"},
    "select": CONTROL | {"command_template", "options"},
    "update": CONTROL | {"payload_install", "title", "display_precision"},
    "event": COMMON - {"expire_after", "force_update"} | {"event_types"},
    "button": CONTROL - {"state_topic", "value_template"} | {"payload_press", "command_template"},
}
VALUELESS = {"image": ("image_topic",), "button": ("command_topic",)}
"""Platforms whose values come from no state, and the topic that they need instead."""
UNITS = {"duration": {"d", "h", "min", "s", "ms", "μs"}}
BINARY_CLASSES = {"problem", "connectivity", "running", "motion", "occupancy"}
TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined)


def _long(part: Any) -> Any:
    return {SHORT.get(key, key): value for key, value in part.items()} if isinstance(part, dict) else part


def render(template: str, payload: str, state: str | None = None) -> str:
    """A template's text for a payload, as Home Assistant makes it: `value_json` where the payload is JSON.

    `this` is the entity as it is before the message; availability templates have none.
    """
    names: dict[str, Any] = {"value": payload}
    if state is not None:
        names["this"] = {"state": state}
    with suppress(ValueError):
        names["value_json"] = json.loads(payload)
    return TEMPLATES.from_string(template).render(names).strip()


@dataclass
class Entity:
    """One entity: its configuration, and what the messages made of it; `ignored` are values that are no option."""

    config: dict[str, Any]
    value: str | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    available: dict[str, bool] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    image: bytes | None = None

    @property
    def is_available(self) -> bool:
        """Whether its availability topics say so; one that was never heard of does not."""
        heard = [self.available.get(each["topic"], False) for each in self.config["availability"]]
        return all(heard) if self.config.get("availability_mode") == "all" else any(heard)

    def hear(self, topic: str, payload: str) -> None:
        """Take a message into account."""
        for each in self.config["availability"]:
            if each["topic"] == topic:
                said = render(each["value_template"], payload) if "value_template" in each else payload
                assert said in ("online", "offline"), (topic, said)
                self.available[topic] = said == "online"
        if topic == self.config.get("json_attributes_topic"):
            self.attributes = json.loads(render(self.config["json_attributes_template"], payload))
            assert isinstance(self.attributes, dict)
        if topic == self.config.get("state_topic"):
            before = "unavailable" if not self.is_available else "unknown" if self.value is None else self.value
            if self.config["platform"] == "binary_sensor":
                before = before.lower()  # the state of a binary sensor is `on` or `off`
            self.value = self._value(render(self.config["value_template"], payload, before))

    def command(self, value: Any = None) -> tuple[str, str]:
        """Topic and payload that Home Assistant publishes when a person chooses a value, or presses."""
        match self.config["platform"]:
            case "switch":
                payload = self.config["payload_on" if value else "payload_off"]
            case "button" | "update":
                payload = self.config["payload_press" if self.config["platform"] == "button" else "payload_install"]
            case _:
                payload = TEMPLATES.from_string(self.config["command_template"]).render(value=value)
        return self.config["command_topic"], payload

    def _value(self, text: str) -> str | None:
        if text == "None":
            return None
        match self.config["platform"]:
            case "switch":
                assert text in (self.config["state_on"], self.config["state_off"]), text
                return text
            case "number":
                assert self.config["min"] <= float(text) <= self.config["max"], text
                return text
            case "event":
                self.attributes = json.loads(text) if text else self.attributes
                assert self.attributes == {} or self.attributes["event_type"] in self.config["event_types"]
                return self.attributes.get("event_type")
            case "update":
                self.attributes = json.loads(text)
                assert self.attributes.keys() <= UPDATE_KEYS
                texts = self.attributes.keys() - {"in_progress", "update_percentage"}
                assert all(isinstance(self.attributes[key], str) for key in texts)
                newest, here = self.attributes["latest_version"], self.attributes["installed_version"]
                return "off" if newest == here else "on"
        if self.config["platform"] == "binary_sensor":
            assert text in (self.config.get("payload_on", "ON"), self.config.get("payload_off", "OFF")), text
        elif "options" in self.config and text not in self.config["options"]:
            self.ignored.append(text)
            return self.value
        elif "state_class" in self.config or "unit_of_measurement" in self.config:
            float(text)
        return text


class Assistant:
    """Listens to a broker's messages, the discovery prefix being the standard one."""

    def __init__(self) -> None:
        self.entities: dict[tuple[str, str], Entity] = {}
        """By device topic and component."""
        self.removed: list[tuple[str, str]] = []
        self.heard: dict[str, str] = {}

    def hear(self, topic: str, payload: bytes) -> None:
        """Take one message, in the order of their coming."""
        shown = [entity for entity in self.entities.values() if entity.config.get("image_topic") == topic]
        for entity in shown:
            entity.image = payload
        if shown:
            return
        text = payload.decode()
        if topic.startswith("homeassistant/device/"):
            self._discover(topic, text)
            return
        self.heard[topic] = text
        for entity in self.entities.values():
            entity.hear(topic, text)

    def of(self, component: str) -> Entity:
        """The entity of a component's key, whatever its device."""
        (found,) = [entity for (_, key), entity in self.entities.items() if key == component]
        return found

    def _discover(self, topic: str, text: str) -> None:
        assert TOPIC.fullmatch(topic), topic
        if not text:
            self._remove([key for key in self.entities if key[0] == topic])
            return
        content = _long(json.loads(text))
        assert device_keys(content["device"]) <= DEVICE_KEYS
        assert content.keys() <= {"device", "origin", "components", *SHARED}, content.keys()
        device, origin = _long(content["device"]), _long(content["origin"])
        assert device["identifiers"]
        assert all(isinstance(each, str) for each in device["identifiers"])
        assert isinstance(origin["name"], str)
        assert origin["name"]
        assert content["components"]
        shared = {key: value for key, value in content.items() if key in SHARED}
        for component, config in content["components"].items():
            config = _long(config)
            assert config["platform"] in KEYS
            if config.keys() == {"platform"}:
                self._remove([key for key in self.entities if key == (topic, component)])
                continue
            known = self.entities.get((topic, component))
            entity = Entity(_checked({**shared, **config}))
            assert known is None or known.config["platform"] == config["platform"]
            self.entities[topic, component] = entity
            for each, payload in self.heard.items():  # retained messages come with the subscription
                entity.hear(each, payload)
        ids = [entity.config["unique_id"] for entity in self.entities.values()]
        assert len(set(ids)) == len(ids), "a unique_id is there twice"

    def _remove(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            del self.entities[key]
            self.removed.append(key)


DEVICE_KEYS = {"identifiers", "name", "manufacturer", "sw_version", "configuration_url", "suggested_area"}


def device_keys(device: dict[str, Any]) -> set[str]:
    """The keys of a device by their long names."""
    return set(_long(device))


def _checked(config: dict[str, Any]) -> dict[str, Any]:
    """A component's configuration, if Home Assistant would take all of it."""
    assert config.keys() <= KEYS[config["platform"]], config.keys() - KEYS[config["platform"]]
    needed = VALUELESS.get(config["platform"], ("state_topic", "value_template"))
    for key in ("unique_id", "name", *needed):
        assert isinstance(config[key], str), key
        assert config[key]
    assert not any(set("+#") & set(value) for key, value in config.items() if key.endswith("_topic"))
    assert config.get("qos", 0) in (0, 1, 2)
    assert config.get("entity_category", "diagnostic") == ("config" if "command_topic" in config else "diagnostic")
    assert config.get("availability_mode", "latest") in ("all", "any", "latest")
    for each in config["availability"]:
        assert each.keys() <= {"topic", "value_template", "payload_available", "payload_not_available"}
    if "expire_after" in config:
        assert isinstance(config["expire_after"], int)
        assert config["expire_after"] > 0
    if config["platform"] == "binary_sensor":
        assert config.get("device_class", "problem") in BINARY_CLASSES
        return config
    if config["platform"] == "select":
        assert config["options"]
        return config
    if config.get("device_class") == "enum" or "options" in config:
        assert config["device_class"] == "enum"
        assert config["options"]
        assert len(set(config["options"])) == len(config["options"])
        assert not config.keys() & {"state_class", "unit_of_measurement"}
    if config.get("device_class") in UNITS:
        assert config["unit_of_measurement"] in UNITS[config["device_class"]]
    assert config.get("state_class", "measurement") in ("measurement", "total", "total_increasing")
    return config
