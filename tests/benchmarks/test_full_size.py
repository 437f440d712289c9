"""Costs of scheme `binary` on networks with random weights."""

import pytest

pytest.importorskip("onnx", reason="onnx is not installed (pip install 'edgemeta[import]')")

from benchmarks.full_size import COLUMNS, measured


@pytest.mark.gate("25 s: two networks in full size")
def test_costs_beside_int8() -> None:
    plain, small, large = measured("resnet8", [(2, 2), (4, 4)], 3)
    assert set(plain) == {*COLUMNS}
    assert plain["of_int8"] == 1
    assert small["bit_operations"] == pytest.approx(plain["bit_operations"] / 16, abs=0.1)
    assert small["weights"] < large["weights"] < plain["weights"]
    assert (small["feature_share"], large["feature_share"], plain["feature_share"]) == (0.2, 0.4, 0.8)
