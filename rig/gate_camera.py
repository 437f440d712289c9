"""A camera that looks at a drawn gate: an image file that is replaced many times a second, with changing light."""

import math
import threading
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

STATES = ("gate closed", "gate open")
WIDTH, HEIGHT = 320, 240
RATE = 10
"""Pictures per second."""

SKY, WALL, GROUND, BARS, YARD = (214, 178, 122), (92, 126, 150), (96, 112, 118), (58, 52, 46), (84, 148, 96)
"""B, G, R."""


def draw(state: str, number: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return picture `number` of a gate, uint8 [240, 320, 3], BGR: same place, other light, noise and shadow."""
    random = np.random.default_rng((seed, number))
    picture = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    picture[:90], picture[90:170], picture[170:] = SKY, WALL, GROUND
    left, right, top, bottom = 90, 230, 70, 190
    cv2.rectangle(picture, (left, top), (right, bottom), YARD, -1)
    cv2.fillPoly(picture, [np.array([(130, 190), (190, 190), (172, 110), (148, 110)])], GROUND)
    cv2.rectangle(picture, (left - 14, top - 14), (left, bottom), (70, 86, 104), -1)
    cv2.rectangle(picture, (right, top - 14), (right + 14, bottom), (70, 86, 104), -1)
    if state == "gate closed":
        for x in range(left + 5, right, 14):
            cv2.line(picture, (x, top + 6), (x, bottom), BARS, 4)
        for y in (top + 12, (top + bottom) // 2, bottom - 10):
            cv2.line(picture, (left, y), (right, y), BARS, 6)
    else:
        for x in (left + 4, left + 10, right - 10, right - 4):
            cv2.line(picture, (x, top + 12), (x, bottom + 12), BARS, 3)
    shade = int(40 * math.sin(number / 7)) + 160
    cv2.fillPoly(picture, [np.array([(0, 240), (shade, 240), (shade - 60, 200), (0, 205)])], (60, 70, 74))
    light = 0.8 + 0.25 * math.sin(number / 11) + random.uniform(-0.05, 0.05)
    noisy = light * picture + random.normal(0, 6, picture.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


class GateCamera:
    """Writes the pictures to a file, from `start` to `stop`.

    state: what the camera sees from the next picture on. number: of the last picture.
    """

    def __init__(self, path: Path, state: str = STATES[0], seed: int = 0) -> None:
        self.path = path
        self.state = state
        self._seed = seed
        self.number = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    @property
    def keys(self) -> dict[str, object]:
        """The keys of a camera in a config."""
        return {"source": str(self.path), "fps": RATE, "loop": True}

    def start(self) -> None:
        """Write the first picture, and go on in a thread."""
        self._write()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the last picture stays."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(1 / RATE):
            self._write()

    def _write(self) -> None:
        self.number += 1
        part = self.path.with_suffix(f".part{self.path.suffix}")
        cv2.imwrite(str(part), draw(self.state, self.number, self._seed))
        part.replace(self.path)
