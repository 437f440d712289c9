"""A fixed camera that looks at a sliding gate, drawn: the state is known, everything else changes as outdoors.

A day has light that rises, reddens and falls, the hard shadow of a roof that wanders over the gate, clouds, a wet or a
dry ground. A frame has the sensor's noise, more of it in the dark, a camera that shakes by a few pixels, people and
cars that pass before the gate, and JPEG's losses. Every frame is a pure function of state, day, time and number.
"""

import math
from typing import Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

State = Literal["closed", "half", "open"]
STATES: tuple[State, ...] = get_args(State)
WIDTH, HEIGHT = 320, 240

Frame = NDArray[np.uint8]
Image = NDArray[np.float32]

_SHARE: dict[State, float] = {"closed": 1.0, "half": 0.5, "open": 0.08}
"""How much of the opening the gate covers."""
_LEFT, _RIGHT, _TOP, _GROUND = 100, 236, 84, 176
_SHAKE = 3.0
"""Greatest shift by shaking, pixels."""
_PASSING = 0.35
"""Share of the frames in which something passes."""


def gate_frame(state: State, day: int, time: float, number: int) -> Frame:
    """The frame uint8 [HEIGHT, WIDTH, 3], B, G, R, of a state at a time 0 (sunrise) .. 1 (sunset) of a day.

    number: of the frame; it decides noise, shaking and what passes.
    """
    weather = np.random.default_rng([day, 1])
    moment = np.random.default_rng([day, 2, number, STATES.index(state)])
    scene = _scene(state, moment)
    if moment.random() < _PASSING:
        _draw_passing(scene, moment)
    scene = _lit(scene, time, weather, moment)
    return _taken(scene, _brightness(time), moment)


def _scene(state: State, moment: np.random.Generator) -> Image:
    """What stands there, in the light of noon; the gate stops within two pixels of its place."""
    scene = np.empty((HEIGHT, WIDTH, 3), np.float32)
    scene[:60] = (214, 190, 160)
    scene[60:_GROUND] = (118, 132, 142)
    scene[_GROUND:] = (96, 102, 108)
    scene[_TOP:_GROUND, _LEFT:_RIGHT] = (104, 126, 112)
    scene[_GROUND - 22 : _GROUND, _LEFT:_RIGHT] = (88, 98, 102)
    cv2.rectangle(scene, (20, 92), (70, 132), (84, 78, 72), -1)
    cv2.rectangle(scene, (262, 100), (300, _GROUND), (92, 96, 116), -1)
    end = _LEFT + round(_SHARE[state] * (_RIGHT - _LEFT)) + int(moment.integers(-2, 3))
    scene[_TOP:_GROUND, _LEFT:end] = (124, 128, 132)
    for bar in range(_LEFT + 6, end, 12):
        scene[_TOP:_GROUND, bar : min(bar + 3, end)] = (104, 108, 112)
    cv2.rectangle(scene, (_LEFT - 6, _TOP - 8), (_RIGHT + 6, _TOP - 1), (90, 92, 96), -1)
    texture = np.random.default_rng(7).normal(0, 7, (HEIGHT // 4, WIDTH // 4, 1)).astype(np.float32)
    return scene + cv2.resize(texture, (WIDTH, HEIGHT))[:, :, np.newaxis]


def _brightness(time: float) -> float:
    """0.3 at both ends of the day, 1 at noon."""
    return 0.3 + 0.7 * math.sin(math.pi * time)


def _lit(scene: Image, time: float, weather: np.random.Generator, moment: np.random.Generator) -> Image:
    """Light and colour of the hour, the roof's shadow, clouds, a wet ground."""
    is_wet, clouds = weather.random() < 0.4, weather.uniform(0, 0.5)
    light = _brightness(time) * (1 - clouds * moment.uniform(0, 1))
    low_sun = 1 - math.sin(math.pi * time)
    colour = np.array([1 - 0.3 * low_sun, 1 - 0.1 * low_sun, 1 + 0.15 * low_sun], np.float32)
    lit: Image = scene * (light * colour)
    if is_wet:
        lit[_GROUND:] *= 0.7
    edge = int(WIDTH * (1.3 * time - 0.15))
    shadow = np.ones((HEIGHT, WIDTH, 1), np.float32)
    corners = np.array([[edge - 90, HEIGHT], [edge - 30, 60], [edge + 50, 60], [edge + 10, HEIGHT]], np.int32)
    cv2.fillPoly(shadow, [corners], 1 - 0.5 * (1 - clouds))
    lit *= cv2.GaussianBlur(shadow, (0, 0), 1.5)[:, :, np.newaxis]
    return lit


def _draw_passing(scene: Image, moment: np.random.Generator) -> None:
    """Somebody, or a car, before the gate or beside it."""
    colour = tuple(float(part) for part in moment.uniform(20, 200, 3))
    centre, feet = int(moment.integers(10, WIDTH - 10)), int(moment.integers(_GROUND, HEIGHT))
    if moment.random() < 0.6:
        high = int(moment.integers(50, 80))
        cv2.ellipse(scene, (centre, feet - high // 2), (high // 7, high // 2), 0, 0, 360, colour, -1)
        cv2.circle(scene, (centre, feet - high), high // 9, (120.0, 140.0, 180.0), -1)
        return
    long = int(moment.integers(60, 100))
    cv2.rectangle(scene, (centre - long // 2, feet - 34), (centre + long // 2, feet - 8), colour, -1)
    cv2.rectangle(scene, (centre - long // 4, feet - 50), (centre + long // 4, feet - 34), colour, -1)
    for wheel in (-long // 3, long // 3):
        cv2.circle(scene, (centre + wheel, feet - 8), 8, (20.0, 20.0, 20.0), -1)


def _taken(scene: Image, brightness: float, moment: np.random.Generator) -> Frame:
    """As the camera delivers it: shaken, exposed half of the way to the mean, noisy, compressed."""
    shift = np.float32([[1, 0, moment.uniform(-_SHAKE, _SHAKE)], [0, 1, moment.uniform(-_SHAKE, _SHAKE)]])
    shaken = cv2.warpAffine(scene, shift, (WIDTH, HEIGHT), borderMode=cv2.BORDER_REPLICATE)
    exposed = shaken * math.sqrt(110 / max(float(shaken.mean()), 1.0))
    noise = moment.normal(0, 4 + 8 * (1 - brightness), exposed.shape)
    pixels = np.clip(exposed + noise, 0, 255).astype(np.uint8)
    done, jpeg = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 70])
    assert done
    return np.asarray(cv2.imdecode(jpeg, cv2.IMREAD_COLOR), np.uint8)
