"""Softmax, layer norm and products of two tensors in integers stay near the float network, on every calibration."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.layers import LayerNorm, MatMul, Multiplier, Normalize, Rearrange, Softmax, TensorType
from edgemeta.toolchain.quantize.normalization import normalize_layer, softmax_layer

RNG = np.random.default_rng(5)
SOURCE = TensorType((3, 4, 24), scale=0.05, zero_point=-7)
X = RNG.integers(-128, 128, (2, 3, 4, 24)).astype(np.int8)
REAL = ((X.astype(np.float64) + 7) * 0.05).astype(np.float32)


def real_of(integers: np.ndarray, kind: TensorType) -> np.ndarray:
    return (integers.astype(np.float64) - kind.zero_point) * kind.scale


@pytest.mark.parametrize("groups", [1, 4, 24])
def test_softmax_rounds_the_real_one(groups: int) -> None:
    out = TensorType(SOURCE.shape, signed=False, scale=1 / 255)
    core = Softmax("softmax", "input", groups=groups)
    made = softmax_layer(core, SOURCE, out)
    made.prove([SOURCE], is_output=False)
    found = real_of(made.integers([X], [SOURCE]), out)
    assert np.abs(found - core.reals([REAL])).max() <= 0.501 / 255


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_layer_norm_rounds_the_real_one(whole: bool, scale: float) -> None:
    """Also of inputs whose variance is far below or above eps, with factors of either sign, and 0."""
    source = replace(SOURCE, scale=SOURCE.scale * scale)
    gamma, beta = RNG.normal(0, 1, 24).astype(np.float32), RNG.normal(0, 1, 24).astype(np.float32)
    gamma[3] = beta[5] = 0
    core = LayerNorm("norm", "input", gamma=gamma, beta=beta, eps=1e-5, whole=whole)
    reals = core.reals([REAL * np.float32(scale)])
    out = TensorType(SOURCE.shape, scale=float(np.abs(reals).max()) / 127)
    made = normalize_layer(core, source, out)
    made.prove([source], is_output=False)
    found = real_of(made.integers([X], [source]), out)
    assert np.abs(found - reals).max() <= 0.51 * out.scale + 1e-3 * out.scale


def test_what_is_equal_everywhere_is_normalized_to_the_bias() -> None:
    core = LayerNorm("norm", "input", gamma=np.ones(24, np.float32), beta=np.full(24, 0.5, np.float32))
    out = TensorType(SOURCE.shape, scale=0.01)
    made = normalize_layer(core, SOURCE, out)
    assert set(made.integers([np.full_like(X, 100)], [SOURCE]).ravel().tolist()) == {50}


HALVED = Multiplier(np.array([1], np.int32), np.array([1], np.uint8), -128, 127)
NORM = Normalize(
    "norm",
    "input",
    SOURCE,
    epsilon=1,
    factors=np.ones(24, np.int8),
    scale=np.ones(1),
    bias=np.zeros(24, np.int32),
    requantize=HALVED,
)
POWERS = np.full(256, 9, np.int32)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (replace(NORM, epsilon=0), r"epsilon is 0, expected 1"),
        (replace(NORM, bias=np.full(24, 2**31 - 1, np.int32)), "an accumulator may reach .* beyond int32"),
        (Softmax("softmax", "input", SOURCE, exponentials=POWERS * 0), "the first one of the exponentials is 0"),
        (Softmax("softmax", "input", SOURCE, exponentials=POWERS, multiplier=-1), "multiplier is -1"),
        (Softmax("softmax", "input", SOURCE), "exponentials are missing"),
    ],
)
def test_what_could_overflow_is_refused(layer: Normalize | Softmax, reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        layer.prove([SOURCE], is_output=False)


def test_products_of_other_shapes_are_refused() -> None:
    product = MatMul("product", ("a", "b"), heads=2, transposed=True)
    with pytest.raises(ModelError, match="expected equal channels"):
        product.shape((2, 3, 8), (4, 1, 6))
    with pytest.raises(ModelError, match="expected 8 channels of the first"):
        replace(product, transposed=False).shape((2, 3, 6), (4, 1, 6))
    wide = TensorType((1, 1, 60000), zero_point=-128)
    with pytest.raises(ModelError, match=r"the sum of 60000 products may reach .*, beyond int32"):
        replace(product, heads=1, requantize=HALVED).prove([wide, wide], is_output=False)


def test_sides_that_split_nothing_are_refused() -> None:
    with pytest.raises(ModelError, match=r"sides \[5, 3, 2\] do not split an input of shape \[3, 5, 2\]"):
        Rearrange("moved", "input", sides=(5, 3, 2), order=(0, 1, 2), rows=1, columns=1).shape((3, 5, 2))
