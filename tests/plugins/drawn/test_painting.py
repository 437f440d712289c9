"""The drawing functions: geometry, coverage and noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.plugins.drawn.painting import SIDE, Layer, noise, spline

coordinate = st.floats(0, 100, width=32)


@pytest.fixture
def layer() -> Layer:
    return Layer(np.random.default_rng(0))


def covered(layer: Layer) -> float:
    """Area under the layer's paint, in squared percent."""
    return float(layer.alpha.sum()) * (100 / SIDE) ** 2


def test_a_polygon_covers_its_area(layer: Layer) -> None:
    layer.shape([(10, 10), (60, 10), (60, 30), (10, 30)], (200, 100, 50))
    assert covered(layer) == pytest.approx(50 * 20, rel=0.03)


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0])
def test_an_ellipse_covers_its_area_however_it_is_turned(layer: Layer, angle: float) -> None:
    layer.ellipse(50, 50, 40, 20, (200, 100, 50), angle=angle)
    assert covered(layer) == pytest.approx(math.pi / 4 * 40 * 20, rel=0.03)


def test_a_limb_has_the_requested_width(layer: Layer) -> None:
    layer.limb([(20, 50), (80, 50)], [10, 6], (200, 100, 50))
    assert covered(layer) == pytest.approx(60 * (10 + 6) / 2, rel=0.05)


def test_plain_paint_keeps_its_colour_in_blue_green_red(layer: Layer) -> None:
    layer.shape([(0, 0), (100, 0), (100, 100), (0, 100)], (200, 100, 50), relief=0)
    assert layer.colour[SIDE // 2, SIDE // 2] == pytest.approx([50, 100, 200])


def test_relief_lights_the_upper_rim_and_shades_the_lower(layer: Layer) -> None:
    layer.shape([(20, 20), (80, 20), (80, 80), (20, 80)], (100, 100, 100), relief=0.3)
    column = layer.colour[:, SIDE // 2, 0]
    assert column[SIDE * 22 // 100] > 105
    assert column[SIDE * 78 // 100] < 95


def test_paint_outside_the_layer_changes_nothing(layer: Layer) -> None:
    layer.shape([(120, 120), (140, 120), (140, 140)], (200, 100, 50))
    assert layer.alpha.max() == 0


@settings(deadline=None)
@given(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=12))
def test_a_spline_passes_through_its_corners(corners: list[tuple[float, float]]) -> None:
    curve = spline(corners, steps=4)
    assert curve.shape == (4 * len(corners), 2)
    assert np.allclose(curve[::4], np.asarray(corners, np.float32), atol=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(coordinate, coordinate), min_size=3, max_size=8))
def test_alpha_stays_between_0_and_1(corners: list[tuple[float, float]]) -> None:
    layer = Layer(np.random.default_rng(0))
    for _ in range(2):
        layer.blob(corners, (255, 255, 255), soft=0.5)
    assert layer.alpha.min() >= 0
    assert layer.alpha.max() <= 1 + 1e-5


@pytest.mark.parametrize("grain", [5.0, 40.0, 1000.0])
def test_noise_has_zero_mean_and_unit_deviation(grain: float) -> None:
    spots = noise(np.random.default_rng(1), 120, 200, grain)
    assert spots.shape == (120, 200)
    assert spots.mean() == pytest.approx(0, abs=1e-3)
    assert spots.std() == pytest.approx(1, abs=1e-3)
