"""The limits of the numbers that outputs stand for, as documented: scores are finite and not 0."""

import numpy as np

from edgemeta.tasks.numbers import limited, sigmoid


def test_numbers_are_limited_to_700() -> None:
    values = limited(np.array([-1e9, -700.5, -699.5, 0.0, 699.5, 700.5, 1e9]))
    assert values.tolist() == [-700, -700, -699.5, 0, 699.5, 700, 700]
    assert sigmoid(values)[0] == 1 / (1 + np.exp(700.0)) > 0
