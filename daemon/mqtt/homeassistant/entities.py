"""The discovery message of a device for Home Assistant: entities, where their values come from, when they expire.

Keys and rules: https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload. Home Assistant
silently ignores unknown keys, so the tests know all keys.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from edgemeta import __version__
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.objects import ZoneConfig
from edgemeta.daemon.messages.channels import (
    AVAILABILITY,
    CROP,
    EVENT,
    FRAME,
    INFO,
    MOTION,
    SNAPSHOT,
    STATE,
    STATS,
    STATUS,
    SWAP,
    Topics,
)
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.mqtt.homeassistant.counts import Component, live, numbers, object_events, objects, present_labels
from edgemeta.model.tasks import TaskName

STATE_NOW = live("value_json.state")

EXPIRES_AFTER = 3
"""A value expires when it was not updated for this many of its periods."""

SHORTEST_EXPIRY = 30
"""Shortest expiry in seconds, so that values with a short period do not flicker."""

WITH_EVENTS: frozenset[TaskName] = frozenset({"classification", "multi-label", "detection", "segmentation"})
"""Tasks whose states change, so that there are events."""


@dataclass(frozen=True)
class CameraView:
    """One camera. state_period: longest time between two state messages, in seconds.

    labels: of a classification, those that its state may have; of a detection or multi-label classification, those with
    entities of their own. zones: the same for each zone. numbers: of raw outputs, how many each has that have entities.
    followed: whether objects are followed. motion, snapshot, crop: whether it publishes motion, its picture, and what
    events are about.
    """

    labels: tuple[str, ...]
    state_period: float
    task: TaskName = "classification"
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    followed: bool = False
    motion: bool = False
    snapshot: bool = False
    crop: bool = False


@dataclass(frozen=True)
class DeviceView:
    """A device as Home Assistant shows it; stats_period in seconds."""

    topics: Topics
    cameras: Mapping[str, CameraView]
    stats_period: float

    @property
    def id(self) -> str:
        """The device's identifier, and the id in its discovery topic."""
        return f"edgemeta-{self.topics.device}"


def view_of(
    config: Config,
    labels: Mapping[str, tuple[str, ...]],
    tasks: Mapping[str, TaskName],
    numbers: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
) -> DeviceView:
    """Return the device of a config; labels, tasks and numbers of each camera, as `CameraView` has them."""
    cameras = {
        name: CameraView(
            labels[name],
            max((camera.publish or config.publish).heartbeat_interval, _longest_pause(camera)),
            tasks[name],
            {zone: _labels_in(each, labels[name]) for zone, each in camera.zones.items()},
            numbers.get(name, {}),
            followed=tasks[name] == "detection" and (camera.tracking or config.tracking).enabled,
            motion=camera.motion.publish,
            snapshot=config.snapshots_of(name).interval is not None,
            crop=config.snapshots_of(name).events and tasks[name] in WITH_EVENTS,
        )
        for name, camera in config.cameras.items()
    }
    return DeviceView(Topics(config.mqtt.base_topic, config.device), cameras, config.stats.interval)


def _labels_in(zone: ZoneConfig, labels: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(label for label in labels if zone.labels is None or label in zone.labels)


def announcement(view: DeviceView) -> dict[str, Any]:
    """Return the whole discovery message of a device, without removed components."""
    components = device_components(view)
    for name in view.cameras:
        components |= camera_components(view, name)
    return frame_of(view, components)


def frame_of(view: DeviceView, components: dict[str, Component]) -> dict[str, Any]:
    """Return a discovery message of a device with these components."""
    return {
        "dev": {"ids": [view.id], "name": view.topics.device, "mf": "edgemeta", "sw": __version__},
        "o": {"name": "edgemeta", "sw": __version__},
        "availability": [{"topic": view.topics.of(AVAILABILITY)}],
        "qos": 1,
        "cmps": components,
    }


def device_components(view: DeviceView) -> dict[str, Component]:
    """Return the components of the device itself."""
    return _identified(view, _device(view))


def camera_components(view: DeviceView, name: str) -> dict[str, Component]:
    """Return the components of one camera."""
    return _identified(view, _camera(view, name, view.cameras[name]))


def _identified(view: DeviceView, components: dict[str, Component]) -> dict[str, Component]:
    return {key: {**component, "unique_id": f"{view.id}.{key}"} for key, component in components.items()}


def _camera(view: DeviceView, name: str, camera: CameraView) -> dict[str, Component]:
    """Return a camera's entities. Their keys begin with the kind of value, so no two cameras can share one."""
    topics, counts, model = view.topics, _part("cameras", name), _part("models", name)
    running = {"availability": _while_running(topics, name), "availability_mode": "all"}
    state = {"state_topic": topics.of(STATE, name), "expire_after": _expiry(camera.state_period), **running}
    score = f"{{% set score = {counts}.get('score') %}}"
    confidence: Component = {
        "p": "sensor",
        "name": f"{name} confidence",
        **_stats(view, score + "{{ (100 * score) | round(1) if score is not none else none }}"),
        "unit_of_measurement": "%",
        "state_class": "measurement",
        **running,
    }
    in_all: Component = {
        "json_attributes_topic": topics.of(STATS),
        "json_attributes_template": f"{{{{ ({counts}.get('counts') or {{}}) | tojson }}}}",
    }
    found: dict[str, Component] = {}
    match camera.task:
        case "classification":
            found[f"state_{name}"] = {
                "p": "sensor",
                "name": f"{name} state",
                "device_class": "enum",
                "options": list(camera.labels),
                "value_template": STATE_NOW,
                **state,
            }
        case "detection":
            found = objects(name, camera.labels, camera.zones, state, in_all)
        case "multi-label" | "segmentation":
            found = present_labels(name, camera.labels, state, in_all)
        case "raw":
            found = numbers(name, camera.numbers, {**state, "state_topic": topics.of(FRAME, name)})
    if camera.task not in ("embedding", "segmentation", "keypoints", "raw"):
        found[f"confidence_{name}"] = confidence
    if camera.followed:
        found |= object_events(name, topics.of(EVENT, name))
    if camera.motion:
        found[f"motion_{name}"] = {
            "p": "binary_sensor",
            "name": f"{name} motion",
            "device_class": "motion",
            "state_topic": topics.of(MOTION, name),
            "value_template": "{{ 'ON' if value_json.motion else 'OFF' }}",
            **running,
        }
    if camera.snapshot:
        found[f"snapshot_{name}"] = _image(f"{name} picture", topics.of(SNAPSHOT, name))
    if camera.crop:
        found[f"crop_{name}"] = _image(f"{name} last event", topics.of(CROP, name))
    return found | {
        f"problem_{name}": {
            "p": "binary_sensor",
            "name": f"{name} problem",
            "device_class": "problem",
            "entity_category": "diagnostic",
            "state_topic": topics.of(STATUS, name),
            "value_template": "{{ 'ON' if value_json.problem else 'OFF' }}",
            "json_attributes_topic": topics.of(STATUS, name),
            "json_attributes_template": "{{ {'status': value_json.status, 'reason': value_json.reason} | tojson }}",
        },
        f"rate_{name}": {
            "p": "sensor",
            "name": f"{name} frame rate",
            **_stats(view, f"{{{{ {counts}.get('fps') }}}}"),
            **_diagnostic("fps"),
            **running,
        },
        f"dropped_{name}": {
            "p": "sensor",
            "name": f"{name} dropped frames",
            **_stats(view, f"{{{{ {counts}.get('dropped', {{}}).values() | sum }}}}"),
            **_diagnostic("frames", "total_increasing"),
        },
        f"model_{name}": {
            "p": "sensor",
            "name": f"{name} model",
            "entity_category": "diagnostic",
            "state_topic": topics.of(INFO),
            "value_template": f"{{{{ {model}.get('name') }}}}",
            "json_attributes_topic": topics.of(INFO),
            "json_attributes_template": f"{{{{ {{'sha256': {model}.get('sha256')}} | tojson }}}}",
        },
    }


def _image(name: str, topic: str) -> Component:
    return {"p": "image", "name": name, "image_topic": topic, "content_type": "image/jpeg"}


def _device(view: DeviceView) -> dict[str, Component]:
    p50 = "value_json.latency_us.total.p50"
    return {
        "latency": {
            "p": "sensor",
            "name": "latency",
            "device_class": "duration",
            **_stats(view, f"{{{{ ({p50} / 1000) | round(2) if {p50} is not none else none }}}}"),
            **_diagnostic("ms"),
        },
        "waiting": {
            "p": "sensor",
            "name": "waiting messages",
            **_stats(view, "{{ value_json.outbox.waiting }}"),
            **_diagnostic("messages"),
        },
        "failures": {
            "p": "sensor",
            "name": "broker failures",
            **_stats(view, "{{ value_json.broker.failures.values() | sum }}"),
            **_diagnostic("failures", "total_increasing"),
        },
        "swap": {
            "p": "sensor",
            "name": "last swap",
            "device_class": "enum",
            "options": [result.value for result in SwapResult],
            "entity_category": "diagnostic",
            "state_topic": view.topics.of(SWAP),
            "value_template": "{{ value_json.result }}",
            "json_attributes_topic": view.topics.of(SWAP),
            "json_attributes_template": "{{ {'time': value_json.time, 'reason': value_json.reason} | tojson }}",
        },
        "overloaded": {
            "p": "binary_sensor",
            "name": "overloaded",
            "device_class": "problem",
            "entity_category": "diagnostic",
            "state_topic": view.topics.of(INFO),
            "value_template": "{{ 'ON' if value_json.overloaded is not none else 'OFF' }}",
            "json_attributes_topic": view.topics.of(INFO),
            "json_attributes_template": "{{ {'reason': value_json.overloaded} | tojson }}",
        },
        "version": {
            "p": "sensor",
            "name": "version",
            "entity_category": "diagnostic",
            "state_topic": view.topics.of(INFO),
            "value_template": "{{ value_json.version }}",
        },
    }


def _stats(view: DeviceView, template: str) -> Component:
    """A value of the stats message, which expires when that no longer arrives."""
    return {
        "state_topic": view.topics.of(STATS),
        "value_template": template,
        "expire_after": _expiry(view.stats_period),
    }


def _diagnostic(unit: str, state_class: str = "measurement") -> Component:
    return {"unit_of_measurement": unit, "state_class": state_class, "entity_category": "diagnostic"}


def _part(of: str, camera: str) -> str:
    """A camera's part of a message about all cameras, in a template; empty if the camera was just removed."""
    return f"value_json.{of}.get('{camera}', {{}})"


def _while_running(topics: Topics, camera: str) -> list[Component]:
    """Available while the device is online and the camera's frames show what happens, or it failed for a moment."""
    moment = f"value_json.status == '{CameraState.FAILED.value}' and not value_json.problem"
    sees = f"value_json.status in {[state.value for state in CameraState if state.sees]} or {moment}"
    running = f"{{{{ 'online' if {sees} else 'offline' }}}}"
    return [{"topic": topics.of(AVAILABILITY)}, {"topic": topics.of(STATUS, camera), "value_template": running}]


def _longest_pause(camera: CameraConfig) -> float:
    """Longest time between two frames of a working camera according to its config, in seconds."""
    slowest = min(rate for rate in (camera.fps, camera.max_fps, 1.0) if rate)
    return max(1 / slowest, camera.motion.max_interval if camera.motion.enabled else 0.0)


def _expiry(period: float) -> int:
    return max(SHORTEST_EXPIRY, math.ceil(EXPIRES_AFTER * period))
