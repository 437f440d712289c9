"""benchmarks/simulate_formats.py in a small form: no format differs from its oracle, and a difference is counted."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from benchmarks import simulate_formats, simulate_oracles
from benchmarks.simulate_formats import as_table, differences_of, measure
from edgemeta.toolchain.number_formats.formats import PRESETS


def test_no_format_differs_from_its_oracle() -> None:
    rows = measure(1000, smallest=3)
    assert set(PRESETS) - {"float32"} <= set(rows)
    assert all(row["inputs"] > 4000 for row in list(rows.values())[1:])
    assert differences_of(rows) == 0, as_table(rows)
    assert rows["bfloat16"]["ml_dtypes"] == 0


def test_a_difference_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An oracle that takes the neighbour of one element."""

    def wrong(*arguments: object) -> tuple[simulate_oracles.Floats, object]:
        y, inside = simulate_oracles.round_in_doubles(*arguments)  # type: ignore[arg-type]
        y[3, 5] = np.nextafter(y[3, 5], np.float32(7e30))
        return y, inside

    monkeypatch.setattr(simulate_formats, "round_in_doubles", wrong)
    monkeypatch.setattr(simulate_formats, "OTHERS", {})
    monkeypatch.setattr(simulate_formats, "OVERFLOWING", {})
    monkeypatch.setattr(simulate_formats, "PRESETS", {"bfloat16": PRESETS["bfloat16"]})
    rows = measure(500, smallest=0)
    assert rows["bfloat16"]["definition"] == rows["bfloat16"]["portable"] == 4  # one for each rounding
    assert rows["bfloat16"]["ml_dtypes"] == 0
