"""A backbone's layers at another size of image."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.toolchain.errors import TeachError
from edgemeta.toolchain.teach.backbone import layers_for, make_plan


def test_the_plan_of_the_shipped_network_is_computed(backbone: Model) -> None:
    plan = make_plan(backbone)
    assert plan.shape == (64, 64, 3)
    assert dict(plan.grids) == {"add2": 8, "add5": 8, "add8": 4}
    assert dict(make_plan(backbone, 32).grids) == {"add2": 8, "add5": 8, "add8": 4}
    assert dict(make_plan(backbone, 24).grids) == {"add2": 8, "add5": 4, "add8": 2}


def test_a_file_may_state_its_plan(backbone: Model) -> None:
    stated = replace(backbone, provenance={"teach": {"side": 48, "grids": {"add5": 6, "add8": 3}}})
    plan = make_plan(stated)
    assert plan.shape == (48, 48, 3)
    assert dict(plan.grids) == {"add5": 6, "add8": 3}
    assert make_plan(stated, 64).shape == (64, 64, 3)


@pytest.mark.parametrize("grids", [{"nothing": 2}, {"add8": 100}, {"add5": 3, "add8": 2}, {"add8": True}, {"input": 2}])
def test_a_plan_that_does_not_fit_is_refused(backbone: Model, grids: dict[str, int]) -> None:
    with pytest.raises(TeachError, match="provenance"):
        make_plan(replace(backbone, provenance={"teach": {"grids": grids}}))


@pytest.mark.parametrize("side", [23, 225])
def test_a_side_out_of_bounds_is_refused(backbone: Model, side: int) -> None:
    with pytest.raises(TeachError, match=r"24 \.\. 224"):
        make_plan(backbone, side)


def test_an_image_that_fills_a_greater_input_in_part_gives_the_same_integers_there(backbone: Model) -> None:
    """Away from the borders the maps of a greater image are those of a small one."""
    plan = make_plan(backbone, 64)
    large = replace(
        backbone, input=replace(backbone.input, shape=plan.shape), layers=layers_for(backbone, plan), outputs=("add5",)
    )
    rng = np.random.default_rng(1)
    image = rng.integers(-128, 128, (1, 64, 64, 3)).astype(np.int8)
    (whole,) = reference.run(large, image)
    small = reference.trace(backbone, np.ascontiguousarray(image[:, :32, :32]))["add5"]
    assert whole.shape == (1, 32, 32, 32)
    np.testing.assert_array_equal(whole[:, :11, :11], small[:, :11, :11])
