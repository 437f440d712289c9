"""The synthetic camera: scenes whose content is known, drawn or photographs that move, "synthetic://?seed=1&scene=3"."""

import time
from urllib.parse import parse_qsl

from edgemeta.daemon.capture.source import Frame, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import parts_of
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.plugins.drawn.photographs import PhotographError, photographs
from edgemeta.plugins.drawn.show import SCENES, Show

FRAMES_PER_SECOND = 30.0
PHOTOGRAPHS = "photographs"
"""The value of `show` for photographs."""


class SyntheticSource:
    """Frames of `Show`, 640x480, at the spec's rate or 30 per second; endless, so `loop` changes nothing.

    The address may give `seed` (a whole number from 0, default 0), `scene` (seconds per scene, default 3) and `show`
    (drawn, the default, or photographs). The first frame after `open` is the show's frame 0. Raises SourceError for
    anything else in the address, and for photographs whose package is not installed.
    """

    live = False

    def __init__(self, spec: SourceSpec) -> None:
        rate = FRAMES_PER_SECOND if spec.fps is None else spec.fps
        self._interval_ns = round(1e9 / rate) if rate else 0
        self._show = show_of(spec.address)
        self._number = 0

    @property
    def interval_ns(self) -> int:
        """Nanoseconds from frame to frame, or 0 for as fast as they can be drawn."""
        return self._interval_ns

    def open(self) -> None:
        """Restart at frame 0."""
        self._number = 0

    def read(self) -> Frame:
        """Draw the next frame; the source never ends and never fails."""
        pixels = self._show.frame(self._number)
        self._number += 1
        return Frame(pixels, time.monotonic_ns())

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def show_of(address: SourceAddress) -> Show:
    """Create the show of an address. Raises SourceError for an invalid address."""
    parts = parts_of(address)
    seed, seconds, shown = "0", "3", "drawn"
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key == "seed":
            seed = value
        elif key == "scene":
            seconds = value
        elif key == "show":
            shown = value
        else:
            raise SourceError(f"source {address} has the unknown key {key!r}, expected seed, scene or show")
    if shown not in ("drawn", PHOTOGRAPHS):
        raise SourceError(f"source {address} has the show {shown[:40]!r}, expected drawn or {PHOTOGRAPHS}")
    if parts.netloc or parts.path:
        raise SourceError(f"source {address} has a host or path, expected synthetic:// or synthetic://?seed=1&scene=3")
    if not (seed.isascii() and seed.isdecimal() and len(seed) <= 18):
        raise SourceError(f"source {address} has the seed {seed!r}, expected a whole number from 0")
    try:
        scenes = photographs() if shown == PHOTOGRAPHS else SCENES
    except PhotographError as error:
        raise SourceError(f"source {address}: {error}") from error
    return Show(int(seed), round(_seconds(address, seconds) * FRAMES_PER_SECOND), scenes)


def _seconds(address: SourceAddress, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0.1 <= seconds <= 3600:
        raise SourceError(f"source {address} has the scene length {text!r}, expected 0.1 to 3600 seconds")
    return seconds
