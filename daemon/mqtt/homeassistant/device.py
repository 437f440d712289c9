"""Entities of the device itself, all diagnostic: the service, and the health of the machine."""

import math

from edgemeta.daemon.messages.channels import INFO, STATS, SWAP, Topics
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.mqtt.homeassistant.counts import Component

EXPIRES_AFTER = 3
"""A value expires when it was not updated for this many of its periods."""

SHORTEST_EXPIRY = 30
"""Shortest expiry in seconds, so that values with a short period do not flicker."""


def device(topics: Topics, period: float) -> dict[str, Component]:
    """Return the entities of the device that are always there. period: of the stats message, in seconds."""
    p50 = "value_json.latency_us.total.p50"
    return {
        "latency": {
            "p": "sensor",
            "name": "latency",
            "device_class": "duration",
            **stats(topics, period, f"{{{{ ({p50} / 1000) | round(2) if {p50} is not none else none }}}}"),
            **diagnostic("ms"),
        },
        "waiting": {
            "p": "sensor",
            "name": "waiting messages",
            **stats(topics, period, "{{ value_json.outbox.waiting }}"),
            **diagnostic("messages"),
        },
        "failures": {
            "p": "sensor",
            "name": "broker failures",
            **stats(topics, period, "{{ value_json.broker.failures.values() | sum }}"),
            **diagnostic("failures", "total_increasing"),
        },
        "swap": {
            "p": "sensor",
            "name": "last swap",
            "device_class": "enum",
            "options": [result.value for result in SwapResult],
            "entity_category": "diagnostic",
            "state_topic": topics.of(SWAP),
            "value_template": "{{ value_json.result }}",
            "json_attributes_topic": topics.of(SWAP),
            "json_attributes_template": "{{ {'time': value_json.time, 'reason': value_json.reason} | tojson }}",
        },
        "overloaded": {
            "p": "binary_sensor",
            "name": "overloaded",
            "device_class": "problem",
            "entity_category": "diagnostic",
            "state_topic": topics.of(INFO),
            "value_template": "{{ 'ON' if value_json.overloaded is not none else 'OFF' }}",
            "json_attributes_topic": topics.of(INFO),
            "json_attributes_template": "{{ {'reason': value_json.overloaded} | tojson }}",
        },
        "version": {
            "p": "sensor",
            "name": "version",
            "entity_category": "diagnostic",
            "state_topic": topics.of(INFO),
            "value_template": "{{ value_json.version }}",
        },
    }


def health(topics: Topics, period: float, known: tuple[str, ...]) -> dict[str, Component]:
    """Return the entities of what the machine says about itself. known: fields of the stats message that it has."""
    percent = {"unit_of_measurement": "%", "state_class": "measurement", "entity_category": "diagnostic"}
    kinds: dict[str, tuple[str, Component]] = {
        "load": ("load", {"icon": "mdi:chart-line", "state_class": "measurement", "entity_category": "diagnostic"}),
        "cpu": ("processor", {"icon": "mdi:cpu-64-bit", **percent}),
        "memory": ("memory", {"icon": "mdi:memory", **percent}),
        "temperature_c": ("temperature", {"device_class": "temperature", **diagnostic("°C")}),
        "disk": ("disk", {"icon": "mdi:harddisk", **percent}),
    }
    found: dict[str, Component] = {}
    for field, (name, keys) in kinds.items():
        if field in known:
            value = f"value_json.health.{field}"
            shown = f"(100 * {value}) | round(1)" if keys.get("unit_of_measurement") == "%" else value
            template = f"{{{{ {shown} if {value} is not none else none }}}}"
            found[field.removesuffix("_c")] = {"p": "sensor", "name": name, **stats(topics, period, template), **keys}
    if "throttled" in known:
        found["throttled"] = {
            "p": "binary_sensor",
            "name": "throttled",
            "device_class": "problem",
            "entity_category": "diagnostic",
            **stats(topics, period, "{{ 'ON' if value_json.health.throttled else 'OFF' }}"),
        }
    return found


def stats(topics: Topics, period: float, template: str) -> Component:
    """Return the keys of a value of the stats message, which expires when that no longer arrives."""
    return {"state_topic": topics.of(STATS), "value_template": template, "expire_after": expiry(period)}


def diagnostic(unit: str, state_class: str = "measurement") -> Component:
    """Return the keys of a diagnostic number."""
    return {"unit_of_measurement": unit, "state_class": state_class, "entity_category": "diagnostic"}


def expiry(period: float) -> int:
    """Return the seconds after which a value expires that comes every `period` seconds."""
    return max(SHORTEST_EXPIRY, math.ceil(EXPIRES_AFTER * period))
