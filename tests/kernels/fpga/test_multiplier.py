"""The multiplier form of the convolution engine in Icarus: each word equals the sum in exact integers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.engines import Folding
from edgemeta.kernels.fpga.generate.multiplier import multiplier_engine
from edgemeta.kernels.fpga.generate.verilog import rtl_sources
from edgemeta.kernels.fpga.synthesize.yosys import alone, engine_top
from tests.kernels.fpga.test_engines import simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
BITS = 32


def convolved(images: NDArray[Any], weights: NDArray[Any], bias: NDArray[Any], shift: int) -> NDArray[Any]:
    """Python integers [N, H, W, O]: padded with zeros, rounded half up, clamped to 0 .. 2^31 - 1."""
    count, height, width, _ = images.shape
    kernel = weights.shape[1]
    edge = kernel // 2
    padded = np.pad(images, ((0, 0), (edge, edge), (edge, edge), (0, 0))).astype(object)
    sums = np.zeros((count, height, width, len(weights)), np.int64).astype(object) + bias.astype(object)
    for u in range(kernel):
        for v in range(kernel):
            window = padded[:, u : u + height, v : v + width, np.newaxis]
            sums += (window * weights[:, u, v].astype(object)).sum(axis=-1)
    outputs: NDArray[Any] = np.clip(sums + (1 << shift - 1) >> shift, 0, 2**31 - 1)
    return outputs


@pytest.mark.gate("8 s: engines are compiled and simulated by Icarus")
@pytest.mark.parametrize(
    ("folding", "kernel", "in_bits", "every"),
    [(Folding(1, 2, 1), 3, 32, 6), (Folding(2, 1, 2), 3, 32, 2), (Folding(1, 1, 1), 1, 8, 1)],
    ids=["2-lanes", "folded", "8-bit-input"],
)
def test_sums_of_products(folding: Folding, kernel: int, in_bits: int, every: int, tmp_path: Path) -> None:
    """Random and extreme weights and elements, in more than 64 bits where they demand it."""
    rng = np.random.default_rng(3)
    least, greatest = -(1 << in_bits - 1), (1 << in_bits - 1) - 1
    images = rng.integers(least, greatest + 1, (4, 4, 5, 2))
    images[1], images[2] = least, greatest
    weights = rng.integers(-(2**31), 2**31, (4, kernel, kernel, 2))
    weights[0], weights[1] = -(2**31), 2**31 - 1
    bias = rng.integers(-(2**40), 2**40, 4)
    shift = in_bits + 4
    engine = multiplier_engine(weights, bias, (4, 5), shift, folding, bits=BITS, in_bits=in_bits, every=every)
    sources = {**rtl_sources(), "top.sv": engine_top(engine.module, alone(engine))}
    sources |= {f"memory_{memory.suffix}.mem": memory.text() for memory in engine.memories}
    for file, text in sources.items():
        (tmp_path / file).write_text(text)
    expected = convolved(images, weights, bias, shift)
    assert 0 < np.count_nonzero(expected) < expected.size
    simulate(tmp_path, "top", joined(images, folding.in_lanes, in_bits), joined(expected, folding.out_lanes, BITS))


def joined(tensor: NDArray[Any], lanes: int, bits: int) -> NDArray[np.uint64]:
    """Words of so many elements each, at most 64 bits."""
    rows = tensor.astype(object).reshape(-1, lanes)
    words = [sum((int(value) & (1 << bits) - 1) << bits * lane for lane, value in enumerate(row)) for row in rows]
    return np.array(words, np.uint64)
