"""The program that feeds damaged files, in a short form."""

import pytest

from reliability.damaged_files import COUNTS, run


@pytest.mark.filterwarnings("ignore")
@pytest.mark.gate("60 s: hundreds of files of each kind")
def test_damaged_files_are_refused_in_a_sentence_or_read() -> None:
    outcome = run(dict.fromkeys(COUNTS, 300), seed=7)
    assert outcome["problems"] == []
    assert outcome["inputs_in_all"] == 900
    assert all(found["refused"] > 50 for found in outcome["inputs"].values())
    assert outcome["peak_mib"] < 3000
