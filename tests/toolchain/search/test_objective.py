from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.search.config import Objective
from edgemeta.toolchain.search.evaluator import prepare
from edgemeta.toolchain.search.judge import in_turns
from edgemeta.toolchain.search.objective import Costs, bits_of, flat, objective


def test_sizes_are_those_of_the_definitions(config: Any) -> None:
    network = prepare(config(), lambda _: None).network
    bits = bits_of({"weights.c0": 2, "weights.c1": 5, "weights.out": 8} | {
        "features.input": 8, "features.c0": 3, "features.g": 6
    })  # fmt: skip
    sizes = Costs(network).of(bits)
    entries = {"c0": (6, 27, 2), "c1": (8, 54, 5), "out": (3, 8, 8)}
    stored = sum(width * rows * columns + 64 * width * rows for rows, columns, width in entries.values())
    full = 32 * (6 * 27 + 8 * 54 + 3 * 8)
    maps = 8 * 8 * 3 * 8 + 8 * 8 * 6 * 3 + 8 * 6
    most = 10 * (8 * 8 * 3 + 8 * 8 * 6 + 8)
    assert sizes.weights == pytest.approx(float(Fraction(stored, full)))
    assert sizes.features == pytest.approx(float(Fraction(maps, most)))
    assert sizes.bytes == -(-stored // 8)
    assert sizes.bit_operations == 64 * 162 * 2 * 8 + 9 * 432 * 5 * 3 + 24 * 8 * 6
    assert flat(bits)["features.g"] == 6
    assert bits_of(flat(bits)) == bits
    found = objective(Objective(alpha=10, beta=2, gamma=1), 0.9, 0.85, sizes)
    assert found == pytest.approx(10 * 0.05 + 2 * stored / full + maps / most)
    assert objective(Objective(), 0.85, 0.9, sizes) == pytest.approx(found)


def test_every_beginning_of_the_judged_images_is_balanced(config: Any) -> None:
    data = prepare(config(), lambda _: None).judge.held_out
    turned = in_turns(data)
    assert sorted(turned.y.tolist()) == sorted(data.y.tolist())
    for count in (3, 30, 60):
        assert np.bincount(turned.y[:count]).tolist() == [count // 3] * 3
