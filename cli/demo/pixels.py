"""Gets the pictures of frames for the demo's screen; they are not sent over MQTT."""

import base64
import socket
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from typing import TypeAlias
from urllib.request import urlopen

import cv2
import numpy as np

from edgemeta.cli.demo.service import CAMERA
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.messages.page import FramePicture
from edgemeta.daemon.messages.records import FoundObject, FrameMessage
from edgemeta.plugins.drawn.show import Show


@dataclass(frozen=True, eq=False)
class DemoPicture:
    """The pixels of a frame, BGR, and the objects of this very frame."""

    pixels: Pixels
    objects: list[FoundObject]


FrameOf: TypeAlias = Callable[[FrameMessage], DemoPicture | None]
"""From a frame message to its picture, or a newer frame's; None if not available."""

ANSWER_TIMEOUT_S = 0.5


def drawn(show: Show) -> FrameOf:
    """Redraw the frames of a synthetic camera; the service counts from 1, the show from 0."""
    return lambda frame: DemoPicture(show.frame(frame.sequence - 1), frame.objects or [])


def from_page(port: int) -> FrameOf:
    """Ask the live page of the demo's service on this port of 127.0.0.1 for its newest frame."""

    def newest(_frame: FrameMessage) -> DemoPicture | None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/frame/{CAMERA}.json", timeout=ANSWER_TIMEOUT_S) as answer:
                content = FramePicture.model_validate_json(answer.read())
        except (OSError, HTTPException):
            return None  # the page comes after the first frames and goes before the last ones
        encoded = np.frombuffer(base64.b64decode(content.jpeg), np.uint8)
        pixels = cv2.imdecode(encoded, cv2.IMREAD_COLOR)
        return None if pixels is None else DemoPicture(pixels.astype(np.uint8, copy=False), content.objects)

    return newest


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
