"""The show: scene after scene, each frame a pure function of the seed and the frame number.

A scene is a subject before a background. The background pans, the subject drifts, bobs, rolls and grows, the light
changes, and the camera adds grain. `truth` is the label of what is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.plugins.drawn import animals, backdrops, vehicles
from edgemeta.plugins.drawn.painting import SIDE, Image, Layer

WIDTH, HEIGHT = 640, SIDE
PAN_ROOM = 160
"""Pixels by which a background is wider than the frame."""

GRAIN = 3.0
"""Standard deviation of the camera's noise, grey levels."""


class Take(Protocol):
    """One scene or photograph, ready to be moved; index: its place in the show."""

    index: int

    def draw(self, t: float) -> NDArray[np.uint8]:
        """The frame at t = 0 .. 1, [HEIGHT, WIDTH, 3], B, G, R, without grain."""
        ...


class Shown(Protocol):
    """What is shown for a while."""

    @property
    def label(self) -> str:
        """What it shows."""
        ...

    def take(self, seed: int, index: int) -> Take:
        """Make it ready to be moved."""
        ...


@dataclass(frozen=True)
class Scene:
    """A thing, its place and how it moves.

    pan: pixels that the place moves in one scene. drift, bob: percent of SIDE, across the scene and up and down. roll:
    degrees to and fro, about `pivot` percent of the height; the thing grows and shrinks about that point, too.
    """

    label: str
    thing: Callable[[np.random.Generator], Layer]
    place: Callable[[np.random.Generator, int], Image]
    pan: float = 40.0
    drift: float = 3.0
    bob: float = 0.5
    roll: float = 1.0
    pivot: float = 50.0

    def take(self, seed: int, index: int) -> Take:
        """As `Shown.take`: paints it."""
        return _Take(self, seed, index)


SCENES = (
    Scene("airplane", vehicles.airplane, backdrops.sky, pan=150, drift=4, bob=2, roll=4),
    Scene("ship", vehicles.ship, backdrops.sea, pan=60, bob=1, roll=2),
    Scene("horse", animals.horse, backdrops.meadow),
    Scene("truck", vehicles.truck, backdrops.road, pan=150, bob=0.3, roll=0.3),
    Scene("frog", animals.frog, backdrops.leaves, pan=10, bob=2),
    Scene("automobile", vehicles.automobile, backdrops.yard, pan=120, bob=0.3, roll=0.3),
    Scene("bird", animals.bird, backdrops.garden, pan=20, bob=0, roll=2, pivot=115),
    Scene("deer", animals.deer, backdrops.heath),
    Scene("cat", animals.cat, backdrops.parlour, pan=20, bob=0, roll=2, pivot=115),
    Scene("dog", animals.dog, backdrops.garden, pan=20, bob=0, roll=2, pivot=115),
)


class Show:
    """Scenes in turn, `frames_per_scene` frames each; 640x480, B, G, R, uint8."""

    def __init__(self, seed: int = 0, frames_per_scene: int = 90, scenes: Sequence[Shown] = SCENES) -> None:
        self._seed = seed
        self._frames_per_scene = frames_per_scene
        self._scenes = scenes
        self._take: Take | None = None

    @cached_property
    def _grain(self) -> NDArray[np.int16]:
        """Drawn with the first frame: a config that is only checked needs none."""
        grain = np.random.default_rng(self._seed).normal(0, GRAIN, (2 * HEIGHT, 2 * WIDTH, 1))
        return np.repeat(np.round(grain), 3, axis=2).astype(np.int16)

    @property
    def labels(self) -> set[str]:
        """What its scenes show."""
        return {scene.label for scene in self._scenes}

    def truth(self, number: int) -> str:
        """Name what frame `number` (from 0) shows."""
        return self._scenes[number // self._frames_per_scene % len(self._scenes)].label

    def frame(self, number: int) -> NDArray[np.uint8]:
        """Draw frame `number` (from 0), [480, 640, 3]; frames in order are cheap, a new scene costs one painting."""
        index, step = divmod(number, self._frames_per_scene)
        if self._take is None or self._take.index != index:
            self._take = self._scenes[index % len(self._scenes)].take(self._seed, index)
        clean = self._take.draw(step / self._frames_per_scene)
        y, x = np.random.default_rng((self._seed, number)).integers(0, (HEIGHT, WIDTH))
        noisy = cv2.add(clean, self._grain[y : y + HEIGHT, x : x + WIDTH], dtype=cv2.CV_8U)
        return np.asarray(noisy, np.uint8)


class _Take:
    """One painted scene, ready to be moved."""

    def __init__(self, scene: Scene, seed: int, index: int) -> None:
        rng = np.random.default_rng((seed, index))
        self.index = index
        self._scene = scene
        self._place = np.clip(scene.place(rng, WIDTH + PAN_ROOM), 0, 255).astype(np.uint8)
        thing = scene.thing(rng)
        layer = np.dstack([np.clip(thing.colour, 0, 255), thing.alpha * 255]).round().astype(np.uint8)
        self._faces_right = rng.random() < 0.5
        self._thing = np.ascontiguousarray(layer[:, ::-1] if self._faces_right else layer)
        self._size = rng.uniform(0.86, 0.98)
        self._growth = rng.uniform(-0.06, 0.06)
        self._light = rng.uniform(0.9, 1.05)
        self._light_change = rng.uniform(-0.1, 0.1)
        self._phase = rng.uniform(0, 2 * np.pi)

    def draw(self, t: float) -> NDArray[np.uint8]:
        """Draw the scene at t = 0 .. 1, without grain."""
        scene, ahead = self._scene, 1 if self._faces_right else -1
        swing = np.sin(2 * np.pi * 1.5 * t + self._phase)
        pan = round(PAN_ROOM / 2 + ahead * scene.pan * (t - 0.5))
        size = self._size + self._growth * (t - 0.5)
        turn = cv2.getRotationMatrix2D((SIDE / 2, SIDE * scene.pivot / 100), scene.roll * swing, size)
        turn[0, 2] += (WIDTH - SIDE) / 2 + ahead * scene.drift * (t - 0.5) * SIDE / 100
        turn[1, 2] += scene.bob * swing * SIDE / 100
        moved = cv2.warpAffine(self._thing, turn, (WIDTH, HEIGHT), flags=cv2.INTER_LINEAR)
        colour, alpha = moved[..., :3], moved[..., 3]
        gap = cv2.merge([255 - alpha] * 3)
        behind = cv2.multiply(self._place[:, pan : pan + WIDTH], gap, scale=1 / 255)
        light = self._light + self._light_change * (t - 0.5)
        return np.asarray(cv2.convertScaleAbs(cv2.add(behind, colour), alpha=light), np.uint8)
