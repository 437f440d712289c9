"""Every test draws the same numbers, whatever ran before it."""

import numpy as np
import pytest

from tests.toolchain.importer import test_operators, tflite_cases


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    for generator, seed in ((test_operators.RNG, 3), (tflite_cases.RNG, 4)):
        generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
