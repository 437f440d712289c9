"""The discovery message of a device for Home Assistant: entities, where their values come from, when they expire.

Keys and rules: https://www.home-assistant.io/integrations/mqtt/#device-discovery-payload. Home Assistant
silently ignores unknown keys, so the tests know all keys.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from edgemeta import __version__
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.objects import ZoneConfig
from edgemeta.daemon.config.web import WebConfig
from edgemeta.daemon.messages.channels import (
    AVAILABILITY,
    CROP,
    FRAME,
    INFO,
    MOTION,
    SNAPSHOT,
    STATE,
    STATS,
    STATUS,
    Topics,
)
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.mqtt.homeassistant import controls
from edgemeta.daemon.mqtt.homeassistant.counts import Component, Shown, live, numbers, objects, present_labels
from edgemeta.daemon.mqtt.homeassistant.device import device, diagnostic, expiry, health, stats
from edgemeta.model.tasks import TaskName

STATE_NOW = live("value_json.state")

WITH_EVENTS: frozenset[TaskName] = frozenset({"classification", "multi-label", "detection", "segmentation"})
"""Tasks whose states change, so that there are events."""


@dataclass(frozen=True)
class CameraView:
    """One camera. state_period: longest time between two state messages, in seconds.

    labels: of a classification, those that its state may have; of a detection or multi-label classification, those with
    entities of their own. zones: the same for each zone. numbers: of raw outputs, how many each has that have entities.
    shown, zone_names: its name for people, and those of its zones that have one. model: the name of its model, as the
    command `model` has it; own_model: whether the config names it for this camera.
    followed: whether objects are followed. motion, snapshot, crop: whether it publishes motion, its picture, and what
    events are about.
    """

    labels: tuple[str, ...]
    state_period: float
    task: TaskName = "classification"
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    followed: bool = False
    shown: str = ""
    zone_names: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    own_model: bool = False
    motion: bool = False
    snapshot: bool = False
    crop: bool = False


@dataclass(frozen=True)
class DeviceView:
    """A device as Home Assistant shows it; stats_period in seconds.

    shown: its name for people; empty: that in topics. area, url: where it is, and its page; None: unknown. commands:
    whether it takes any. models: those that a command can choose; rollouts: whether a fleet orders some.
    health: what it says about itself.
    """

    topics: Topics
    cameras: Mapping[str, CameraView]
    stats_period: float
    shown: str = ""
    area: str | None = None
    url: str | None = None
    commands: bool = False
    models: tuple[str, ...] = ()
    rollouts: bool = False
    health: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The device's identifier, and the id in its discovery topic."""
        return id_of(self.topics.device)


def id_of(device: str) -> str:
    """The identifier in Home Assistant of the device with this name."""
    return f"edgemeta-{device}"


def view_of(
    config: Config,
    labels: Mapping[str, tuple[str, ...]],
    tasks: Mapping[str, TaskName],
    numbers: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    models: tuple[str, ...] = (),
    used: Mapping[str, str] = MappingProxyType({}),
    health: tuple[str, ...] = (),
) -> DeviceView:
    """Return the device of a config; labels, tasks and numbers of each camera, as `CameraView` has them.

    models, health: as `DeviceView` has them; used: the name of each camera's model.
    """
    cameras = {
        name: CameraView(
            labels[name],
            max((camera.publish or config.publish).heartbeat_interval, _longest_pause(camera)),
            tasks[name],
            {zone: _labels_in(each, labels[name]) for zone, each in camera.zones.items()},
            numbers.get(name, {}),
            followed=tasks[name] == "detection" and (camera.tracking or config.tracking).enabled,
            shown=camera.name or name,
            zone_names={zone: each.name for zone, each in camera.zones.items() if each.name is not None},
            model=used.get(name, ""),
            own_model=camera.model is not None,
            motion=camera.motion.publish,
            snapshot=config.snapshots_of(name).interval is not None,
            crop=config.snapshots_of(name).events and tasks[name] in WITH_EVENTS,
        )
        for name, camera in config.cameras.items()
    }
    home = config.homeassistant
    return DeviceView(
        Topics(config.mqtt.base_topic, config.device),
        cameras,
        config.stats.interval,
        shown=config.device_name or "",
        area=home.suggested_area,
        url=home.configuration_url or _page_of(config.web),
        commands=config.mqtt.commands,
        models=models,
        rollouts=config.swap.rollouts != "refuse",
        health=health,
    )


def _page_of(web: WebConfig) -> str | None:
    """Return the address of the live page; None where only this machine reaches it, or where that is not known."""
    address = ipaddress.ip_address(web.host)
    if not web.enabled or not web.port or address.is_loopback or address.is_unspecified:
        return None
    return f"http://[{address}]:{web.port}" if address.version == 6 else f"http://{address}:{web.port}"


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
    known = {"configuration_url": view.url, "suggested_area": view.area}
    return {
        "dev": {
            "ids": [view.id],
            "name": view.shown or view.topics.device,
            "mf": "edgemeta",
            "sw": __version__,
            **{key: value for key, value in known.items() if value is not None},
        },
        "o": {"name": "edgemeta", "sw": __version__},
        "availability": [{"topic": view.topics.of(AVAILABILITY)}],
        "qos": 1,
        "cmps": components,
    }


def device_components(view: DeviceView) -> dict[str, Component]:
    """Return the components of the device itself."""
    found = device(view.topics, view.stats_period) | health(view.topics, view.stats_period, view.health)
    if view.commands:
        found |= controls.buttons(view.topics)
    shared = next((name for name, camera in view.cameras.items() if not camera.own_model), None)
    if view.commands and (view.models or view.rollouts) and shared is not None:
        found |= controls.models(view.topics, shared, "", view.models, view.cameras[shared].model, own=False)
    return _identified(view, found)


def camera_components(view: DeviceView, name: str) -> dict[str, Component]:
    """Return the components of one camera."""
    camera = view.cameras[name]
    shown = camera.shown or name
    running = {"availability": _while_running(view.topics, name), "availability_mode": "all"}
    found = _recognized(view, name, shown, camera, running)
    found |= _pictures(view.topics, name, shown, camera, running)
    found |= _diagnostics(view, name, shown, running)
    if camera.task in WITH_EVENTS:
        found[f"event_{name}"] = controls.events(view.topics, name, shown, camera.followed)
    if view.commands:
        has_score = camera.task in ("classification", "detection")
        found |= controls.settings(view.topics, name, shown, has_score)
    if view.commands and view.models and camera.own_model:
        found |= controls.models(view.topics, name, f"{shown} ", view.models, camera.model, own=True)
    return _identified(view, found)


def _identified(view: DeviceView, components: dict[str, Component]) -> dict[str, Component]:
    return {key: {**component, "unique_id": f"{view.id}.{key}"} for key, component in components.items()}


def _recognized(
    view: DeviceView, name: str, shown: str, camera: CameraView, running: Component
) -> dict[str, Component]:
    """Return what the model sees. Keys begin with the kind of value, so no two cameras can share one."""
    topics, counts = view.topics, _part("cameras", name)
    state = {"state_topic": topics.of(STATE, name), "expire_after": expiry(camera.state_period), **running}
    percent = "{{ (100 * score) | round(1) if score is not none else none }}"
    score = f"{{% set score = {counts}.get('score') %}}{percent}"
    confidence: Component = {
        "p": "sensor",
        "name": f"{shown} confidence",
        **stats(view.topics, view.stats_period, score),
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
                "name": f"{shown} state",
                "device_class": "enum",
                "options": list(camera.labels),
                "value_template": STATE_NOW,
                **state,
            }
        case "detection":
            found = objects(name, camera.labels, camera.zones, state, in_all, Shown(shown, camera.zone_names))
        case "multi-label" | "segmentation":
            found = present_labels(name, shown, camera.labels, state, in_all)
        case "raw":
            found = numbers(name, shown, camera.numbers, {**state, "state_topic": topics.of(FRAME, name)})
    if camera.task not in ("embedding", "segmentation", "keypoints", "raw"):
        found[f"confidence_{name}"] = confidence
    return found


def _pictures(topics: Topics, name: str, shown: str, camera: CameraView, running: Component) -> dict[str, Component]:
    """Return motion, the camera's picture, and what its last event is about."""
    found: dict[str, Component] = {}
    if camera.motion:
        found[f"motion_{name}"] = {
            "p": "binary_sensor",
            "name": f"{shown} motion",
            "device_class": "motion",
            "state_topic": topics.of(MOTION, name),
            "value_template": "{{ 'ON' if value_json.motion else 'OFF' }}",
            **running,
        }
    if camera.snapshot:
        found[f"snapshot_{name}"] = _image(f"{shown} picture", topics.of(SNAPSHOT, name))
    if camera.crop:
        found[f"crop_{name}"] = _image(f"{shown} last event", topics.of(CROP, name))
    return found


def _diagnostics(view: DeviceView, name: str, shown: str, running: Component) -> dict[str, Component]:
    """Return how the camera itself is, and its model."""
    topics, counts, model = view.topics, _part("cameras", name), _part("models", name)
    return {
        f"problem_{name}": {
            "p": "binary_sensor",
            "name": f"{shown} problem",
            "device_class": "problem",
            "entity_category": "diagnostic",
            "state_topic": topics.of(STATUS, name),
            "value_template": "{{ 'ON' if value_json.problem else 'OFF' }}",
            "json_attributes_topic": topics.of(STATUS, name),
            "json_attributes_template": "{{ {'status': value_json.status, 'reason': value_json.reason} | tojson }}",
        },
        f"rate_{name}": {
            "p": "sensor",
            "name": f"{shown} frame rate",
            **stats(view.topics, view.stats_period, f"{{{{ {counts}.get('fps') }}}}"),
            **diagnostic("fps"),
            **running,
        },
        f"dropped_{name}": {
            "p": "sensor",
            "name": f"{shown} dropped frames",
            **stats(view.topics, view.stats_period, f"{{{{ {counts}.get('dropped', {{}}).values() | sum }}}}"),
            **diagnostic("frames", "total_increasing"),
        },
        f"model_{name}": {
            "p": "sensor",
            "name": f"{shown} model",
            "entity_category": "diagnostic",
            "state_topic": topics.of(INFO),
            "value_template": f"{{{{ {model}.get('name') }}}}",
            "json_attributes_topic": topics.of(INFO),
            "json_attributes_template": f"{{{{ {{'sha256': {model}.get('sha256')}} | tojson }}}}",
        },
    }


def _image(name: str, topic: str) -> Component:
    return {"p": "image", "name": name, "image_topic": topic, "content_type": "image/jpeg"}


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
