"""The announcement as one message or, where that is too large, as one for the device and one or more for each camera.

Brokers limit the size of a retained message: Azure Event Grid and Cloudflare to 64 KB, AWS IoT to 128 KB. Home
Assistant joins messages about the same device by its identifier.
"""

import json
from collections.abc import Iterator
from itertools import chain, count
from typing import Any, TypeAlias

from edgemeta.daemon.mqtt.homeassistant.counts import Component
from edgemeta.daemon.mqtt.homeassistant.entities import DeviceView, camera_components, device_components, frame_of

LARGEST = 48_000
"""Most bytes of one message without components that are marked as removed."""

LARGEST_MARKED = 60_000
"""Most bytes of one message with them; also below the longest message that the service reads back."""

Announcement: TypeAlias = dict[str, Any]


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
