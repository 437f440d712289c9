"""Announces the device to Home Assistant, and removes entities that no longer exist.

The announcement, one message or several, is retained, so the link sends it again at every connect; it is also sent when
Home Assistant reports that it has started. What an earlier run announced is read back from the broker: removed
components are then sent with their platform only, and the topic of a message that does not exist any more is cleared.
Both are Home Assistant's ways to remove an entity.
"""

import json
import logging
import threading
from collections.abc import Iterator
from itertools import chain, count
from typing import Any, Protocol, TypeAlias

from edgemeta.daemon.config.homeassistant import HomeAssistantConfig
from edgemeta.daemon.mqtt.homeassistant.counts import Component
from edgemeta.daemon.mqtt.homeassistant.entities import DeviceView, camera_components, device_components, frame_of
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import Handler, Incoming, Limit

log = logging.getLogger(__name__)

STARTED = b"online"
"""What Home Assistant publishes when it has started."""

STARTS_PER_SECOND = 5
"""Start messages of Home Assistant that are handled per second: for each the device is announced."""

PLATFORMS = ("sensor", "binary_sensor", "image", "switch", "number", "select", "button", "event", "update")
"""Platforms that this and earlier versions announce."""

LARGEST = 48_000
"""Most bytes of one message without components that are marked as removed.

Brokers limit a retained message: Azure Event Grid and Cloudflare to 64 KB, AWS IoT to 128 KB. Home Assistant joins
messages about the same device by its identifier.
"""
LARGEST_MARKED = 60_000
"""Most bytes of one message with them; also below the longest message that the service reads back."""
Announcement: TypeAlias = dict[str, Any]


class Link(Protocol):
    """The link to the broker."""

    def send(self, message: OutgoingMessage) -> None:
        """Send a message."""

    def subscribe(self, topic_filter: str, handler: Handler, limit: Limit | None = None) -> None:
        """Have a handler called for messages on topics that match; only before the start."""


class Discovery:
    """Keeps the entities of one device in Home Assistant up to date. Any thread may call."""

    def __init__(self, link: Link, config: HomeAssistantConfig, view: DeviceView) -> None:
        """Subscribe, if there is a `homeassistant` section; nothing is sent before `update`.

        Prefix and status topic cannot be changed later.
        """
        self._link = link
        self._prefix = config.discovery_prefix
        self._lock = threading.Lock()
        self._wanted: dict[str, Announcement] | None = None
        self._gone: dict[str, dict[str, Component]] = {}
        if config.enabled is not None:
            for topic_filter in topic_filters(self._prefix, view.id):
                link.subscribe(topic_filter, self._on_earlier)
            link.subscribe(config.status_topic, self._on_status, Limit(STARTS_PER_SECOND, _no_answer))

    def update(self, enabled: bool, view: DeviceView) -> None:
        """Announce the device as it is now, or remove it."""
        with self._lock:
            before = self._wanted or {}
            self._wanted = {_topic(self._prefix, key): part for key, part in parts(view).items()} if enabled else None
            for topic in before.keys() - (self._wanted or {}).keys():
                self._withdraw(topic)
            if enabled:
                self._announce({topic: part["cmps"] for topic, part in before.items()})

    def _on_status(self, message: Incoming) -> None:
        if message.payload != STARTED:
            return
        with self._lock:
            if self._wanted is not None:
                self._announce({})

    def _on_earlier(self, message: Incoming) -> None:
        """Compare with a retained announcement: an earlier run's or, after a later connect, our own."""
        if not message.retained or not message.payload:
            return
        earlier = _components_of(message.payload)
        if earlier is None:
            return
        with self._lock:
            if self._wanted is None:
                log.info("discovery is off: removing the device from Home Assistant")
                self._withdraw(message.topic)
            elif message.topic not in self._wanted:
                self._withdraw(message.topic)
                self._announce({})  # what was there may have moved to another message
            elif not earlier.keys() <= self._wanted[message.topic]["cmps"].keys():
                self._announce({message.topic: earlier})

    def _announce(self, earlier: dict[str, dict[str, Component]]) -> None:
        """Send the present components, and remove the earlier ones that no longer exist in their message."""
        assert self._wanted is not None
        for topic, content in self._wanted.items():
            known = self._gone.get(topic, {}) | earlier.get(topic, {})
            self._gone[topic] = {key: each for key, each in known.items() if key not in content["cmps"]}
            self._send(topic, encoded(marked(content, self._gone[topic])))

    def _withdraw(self, topic: str) -> None:
        self._gone.pop(topic, None)
        self._send(topic, b"")

    def _send(self, topic: str, payload: bytes) -> None:
        self._link.send(OutgoingMessage(topic, payload, 1, retain=True))


def topic_filters(prefix: str, device: str) -> tuple[str, ...]:
    """The topics of all announcements of a device, by its id."""
    return _topic(prefix, device), _topic(prefix, f"{device}/+")


def _topic(prefix: str, discovery_id: str) -> str:
    return f"{prefix}/device/{discovery_id}/config"


def _no_answer(_message: Incoming, _reason: str) -> None:
    """Home Assistant expects no answer."""


def _components_of(payload: bytes) -> dict[str, Component] | None:
    """Return the components of an announcement that are not marked as removed; None if it is not one of ours.

    Any client of the broker may have written it.
    """
    try:
        content: Any = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("cmps"), dict):
        return None
    if not isinstance(content.get("o"), dict) or content["o"].get("name") != "edgemeta":
        return None
    return {
        key: component
        for key, component in content["cmps"].items()
        if isinstance(component, dict) and component.get("p") in PLATFORMS and len(component) > 1
    }


def encoded(content: Announcement) -> bytes:
    """Return an announcement as JSON."""
    return json.dumps(content, separators=(",", ":")).encode()


def marked(content: Announcement, removed: dict[str, Component]) -> Announcement:
    """Return an announcement with components marked as removed: the last ones given, as many as there is room for."""
    room = LARGEST_MARKED - len(encoded(content))
    marks: dict[str, Component] = {}
    for key, component in reversed(removed.items()):
        mark = {"p": component["p"]}
        room -= len(encoded({key: mark}))
        if room >= 0 and key not in content["cmps"]:
            marks[key] = mark
    return content | {"cmps": content["cmps"] | marks}


def parts(view: DeviceView) -> dict[str, Announcement]:
    """Return the announcements of a device by their discovery ids: `<device's id>`, or that, `/` and a part's name.

    Components that have moved from the device's message to those of cameras are marked as removed in it: Home Assistant
    may know them from there.
    """
    device = device_components(view)
    cameras = {name: camera_components(view, name) for name in view.cameras}
    whole = frame_of(view, device | {key: each for camera in cameras.values() for key, each in camera.items()})
    if len(encoded(whole)) <= LARGEST:
        return {view.id: whole}
    found = {view.id: marked(frame_of(view, device), whole["cmps"])}
    for name, components in cameras.items():
        free = (f"{name}-{number}" for number in count(2) if f"{name}-{number}" not in view.cameras)
        for part_name, part in zip(chain((name,), free), _pieces(view, components), strict=False):
            found[f"{view.id}/{part_name}"] = part
    return found


def _pieces(view: DeviceView, components: dict[str, Component]) -> Iterator[Announcement]:
    """Divide components, in order, into announcements of at most LARGEST bytes, or of one component."""
    empty = len(encoded(frame_of(view, {})))
    piece: dict[str, Component] = {}
    size = empty
    for key, component in components.items():
        length = len(encoded({key: component}))  # its two braces stand for comma and colon
        if piece and size + length > LARGEST:
            yield frame_of(view, piece)
            piece, size = {}, empty
        piece[key] = component
        size += length
    yield frame_of(view, piece)
