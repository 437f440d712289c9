"""The backgrounds: size, and variation with the random state."""

import numpy as np
import pytest

from edgemeta.plugins.drawn.painting import SIDE
from edgemeta.plugins.drawn.show import SCENES, Scene

each_place = pytest.mark.parametrize("scene", SCENES, ids=[scene.place.__name__ for scene in SCENES])


@each_place
def test_a_background_has_the_requested_width_and_varies(scene: Scene) -> None:
    rng = np.random.default_rng(0)
    one, other = scene.place(rng, 700), scene.place(rng, 700)
    assert one.shape == (SIDE, 700, 3)
    assert np.isfinite(one).all()
    assert np.abs(one - other).max() > 5
