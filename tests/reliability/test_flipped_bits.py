"""reliability/flipped_bits.py in its short form: no flipped bit gets past the checksum."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.gate("3 s: the short form of an acceptance program")
def test_no_flipped_bit_passes_the_checksum(repository: Path) -> None:
    program = repository / "reliability" / "flipped_bits.py"
    ended = subprocess.run([sys.executable, program, "--bits", "20"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    for counts in json.loads(ended.stdout).values():
        assert (counts["flipped"], counts["past_the_checksum"]) == (20, 0)
        assert 0 < counts["past_the_self_test"] < 20, "the self-test alone sees some of them, not all"
