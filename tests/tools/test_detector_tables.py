"""The page of the shipped detector has the figures of its result file."""

import json

from tools.detector_tables import RESULT, ROOT, failures, precision, replaced

VALUES = json.loads((ROOT / RESULT).read_text("utf-8"))
PAGE = (ROOT / "docs" / "people-vehicles-animals.md").read_text("utf-8")


def test_the_page_is_in_step_and_follows_the_file() -> None:
    assert replaced(PAGE) == PAGE
    assert all(line in PAGE.splitlines() for line in (*precision(VALUES), *failures(VALUES)))


def test_other_figures_give_other_rows() -> None:
    changed = {**VALUES, "int8": {**VALUES["int8"], "car": 99.5}}
    assert "| car | 99.5 | " in "\n".join(precision(changed))
    crowd = {"from": 20, "to": 1000, "boxes": 7, "found": 0.25}
    groups = {**VALUES["groups"], "boxes in the picture": [crowd]}
    assert "| boxes in the picture: 20 and more | 25% | 7 |" in list(failures({**VALUES, "groups": groups}))
