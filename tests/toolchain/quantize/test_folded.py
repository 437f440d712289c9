"""Names of choices."""

import numpy as np

from edgemeta.toolchain.quantize.folded import Choice


def test_names_of_choices() -> None:
    assert Choice("mse", "table").text == "table, mse"
    full = Choice("minmax", "multiplier", 0.5, True, {"c": np.zeros(1)})
    assert full.text == "multiplier, minmax, equalized 0.5, error feedback, bias corrected"
