"""Announces the device to Home Assistant, and removes entities that no longer exist.

The announcement is retained, so the link sends it again at every connect; it is also sent when Home Assistant reports
that it has started. The announcement of an earlier run is read back from the broker: removed components are then sent
with their platform only, and if discovery is off the topic is cleared. Both are Home Assistant's ways to remove an
entity.
"""

import json
import logging
import threading
from typing import Any, Protocol

from edgemeta.daemon.config.homeassistant import HomeAssistantConfig
from edgemeta.daemon.mqtt.homeassistant.counts import Component
from edgemeta.daemon.mqtt.homeassistant.entities import DeviceView, announcement
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.subscriptions import Handler, Incoming, Limit

log = logging.getLogger(__name__)

STARTED = b"online"
"""What Home Assistant publishes when it has started."""

STARTS_PER_SECOND = 5
"""Start messages of Home Assistant that are handled per second: for each the device is announced."""

PLATFORMS = ("sensor", "binary_sensor")
"""Platforms that this and earlier versions announce."""


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
        self._topic = f"{config.discovery_prefix}/device/{view.id}/config"
        self._lock = threading.Lock()
        self._view: DeviceView | None = None
        self._gone: dict[str, Component] = {}
        if config.enabled is not None:
            link.subscribe(self._topic, self._on_earlier)
            link.subscribe(config.status_topic, self._on_status, Limit(STARTS_PER_SECOND, _no_answer))

    def update(self, enabled: bool, view: DeviceView) -> None:
        """Announce the device as it is now, or remove it."""
        with self._lock:
            before, self._view = self._view, view if enabled else None
            if enabled:
                self._announce(announcement(before)["cmps"] if before is not None else {})
            elif before is not None:
                self._withdraw()

    def _on_status(self, message: Incoming) -> None:
        if message.payload != STARTED:
            return
        with self._lock:
            if self._view is not None:
                self._announce({})

    def _on_earlier(self, message: Incoming) -> None:
        """Compare with the retained announcement: an earlier run's or, after a later connect, our own."""
        if not message.retained or not message.payload:
            return
        earlier = _components_of(message.payload)
        with self._lock:
            if self._view is None and earlier is not None:
                log.info("discovery is off: removing the device from Home Assistant")
                self._withdraw()
            elif self._view is not None and earlier and not earlier.keys() <= announcement(self._view)["cmps"].keys():
                self._announce(earlier)

    def _announce(self, earlier: dict[str, Component]) -> None:
        """Send the present components, and remove the earlier ones that no longer exist."""
        assert self._view is not None
        content = announcement(self._view)
        wanted = content["cmps"]
        gone = {key: {"p": component["p"]} for key, component in earlier.items()}
        self._gone = {key: component for key, component in {**self._gone, **gone}.items() if key not in wanted}
        content["cmps"] = {**wanted, **self._gone}
        self._link.send(
            OutgoingMessage(self._topic, json.dumps(content, separators=(",", ":")).encode(), 1, retain=True)
        )

    def _withdraw(self) -> None:
        self._gone = {}
        self._link.send(OutgoingMessage(self._topic, b"", 1, retain=True))


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
