"""docs/reliability.md says what the result files say."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import reliability


def test_the_pages_figures_are_those_of_the_result_files() -> None:
    page = reliability.PAGE.read_text("utf-8")
    assert page == reliability.page_with(reliability.table()), "run python benchmarks/reliability.py"
    assert reliability.BEGIN in page
    assert reliability.END in page
