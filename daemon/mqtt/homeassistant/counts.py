"""Entities of detections, multi-label classifications and raw outputs, from state and frame messages."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Component = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """Names for people: of a camera, and of those of its zones that have one."""

    camera: str
    zones: Mapping[str, str] = field(default_factory=dict)


def live(value: str) -> str:
    """Return the template of a sensor whose value a state message has, as a Jinja expression.

    A historical state must not replace the present one: the entity keeps its state. `unknown` and `unavailable` are
    Home Assistant's own values. None renders as `None`, which an MQTT sensor shows as unknown; for any other text that
    is no option or no number Home Assistant logs a warning.
    """
    kept = "this.state if this.state not in ('unknown', 'unavailable') else none"
    return f"{{% if not value_json.historical %}}{{{{ {value} }}}}{{% else %}}{{{{ {kept} }}}}{{% endif %}}"


def objects(
    camera: str,
    labels: tuple[str, ...],
    zones: Mapping[str, tuple[str, ...]],
    state: Component,
    attributes: Component,
    shown: Shown,
) -> dict[str, Component]:
    """Return the entities of a detection: how many objects, of each label, in each zone, and whether it is occupied.

    state: keys of values of the state message. attributes: keys of the attributes of the total. shown: names
    for people. Keys of the components have the camera's, the zone's and the label's name with dots between, which no
    name contains.
    """
    found = {f"objects_{camera}": {**_number(f"{shown.camera} objects", _total(_COUNTS)), **state, **attributes}}
    for label in labels:
        found[f"count_{camera}.{_slug(label)}"] = _number(f"{shown.camera} {label}", _count(_COUNTS, label)) | state
    for zone, in_zone in zones.items():
        named = f"{shown.camera} {shown.zones.get(zone, zone)}"
        counts = f"(value_json.zones or {{}}).get('{zone}')"
        found[f"occupancy_{camera}.{zone}"] = {
            "p": "binary_sensor",
            "name": named,
            "device_class": "occupancy",
            "value_template": _on_or_off(_total(counts)),
            **state,
        }
        for label in in_zone:
            key = f"count_{camera}.{zone}.{_slug(label)}"
            found[key] = _number(f"{named} {label}", _count(counts, label)) | state
    return found


def present_labels(
    camera: str, shown: str, labels: tuple[str, ...], state: Component, attributes: Component
) -> dict[str, Component]:
    """Return the entities of a multi-label classification: how many labels are present, and whether each of them is."""
    found = {f"labels_{camera}": {**_number(f"{shown} labels", _total(_COUNTS)), **state, **attributes}}
    for label in labels:
        found[f"present_{camera}.{_slug(label)}"] = {
            "p": "binary_sensor",
            "name": f"{shown} {label}",
            "value_template": _on_or_off(_count(_COUNTS, label)),
            **state,
        }
    return found


def numbers(camera: str, shown: str, outputs: Mapping[str, int], frame: Component) -> dict[str, Component]:
    """Return an entity for each number of raw outputs. outputs: how many each has; frame: as `state`."""
    return {
        f"number_{camera}.{_slug(name)}.{place}": {
            **_number(f"{shown} {name} {place}" if count > 1 else f"{shown} {name}", _number_of(name, place)),
            **frame,
        }
        for name, count in outputs.items()
        for place in range(count)
    }


def _number_of(name: str, place: int) -> str:
    values = f"(value_json.outputs or {{}}).get({json.dumps(name, ensure_ascii=False)}, {{}}).get('values', [])"
    return f"({values} + [none] * {place + 1})[{place}]"


_COUNTS = "value_json.counts"


def _number(name: str, value: str) -> Component:
    return {"p": "sensor", "name": name, "state_class": "measurement", "value_template": live(value)}


def _total(counts: str) -> str:
    return f"{counts}.values() | sum if {counts} is not none else none"


def _count(counts: str, label: str) -> str:
    """The label as a Jinja string: JSON's escapes are valid there, for quotes and backslashes."""
    return f"{counts}.get({json.dumps(label, ensure_ascii=False)}, 0) if {counts} is not none else none"


def _on_or_off(number: str) -> str:
    """As `live`; the state of a binary sensor is `on` or `off`, what it takes is `ON` or `OFF`."""
    return (
        "{% if not value_json.historical %}"
        f"{{% set number = {number} %}}{{{{ none if number is none else 'ON' if number else 'OFF' }}}}"
        "{% else %}{{ this.state | upper if this.state in ('on', 'off') else none }}{% endif %}"
    )


def _slug(label: str) -> str:
    """A label as part of a key: letters, digits, `-` and `_`; one that has other characters gets a hash."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", label)
    return plain if plain == label else f"{plain}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
