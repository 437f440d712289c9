"""Gets the pixels of frames for the demo's screen; they are not sent over MQTT."""

import socket
from collections.abc import Callable
from http.client import HTTPException
from typing import TypeAlias
from urllib.request import urlopen

import cv2
import numpy as np

from edgemeta.cli.demo.service import CAMERA
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.capture.sources.synthetic.show import Show

FrameOf: TypeAlias = Callable[[int], Pixels | None]
"""From a frame's sequence number to its pixels, or a newer frame's; None if not available."""

ANSWER_TIMEOUT_S = 0.5


def drawn(show: Show) -> FrameOf:
    """Redraw the frames of a synthetic camera; the service counts from 1, the show from 0."""
    return lambda sequence: show.frame(sequence - 1)


def from_page(port: int) -> FrameOf:
    """Ask the live page of the demo's service on this port of 127.0.0.1 for its newest frame."""

    def newest(_sequence: int) -> Pixels | None:
        try:
            with urlopen(f"http://127.0.0.1:{port}/frame/{CAMERA}.jpg", timeout=ANSWER_TIMEOUT_S) as answer:
                encoded = answer.read()
        except (OSError, HTTPException):
            return None  # the page comes after the first frames and goes before the last ones
        pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        return None if pixels is None else pixels.astype(np.uint8, copy=False)

    return newest


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
