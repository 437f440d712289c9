"""Workers of a search and its database's server are killed: the program's own check, in a short form."""

from pathlib import Path

import pytest

from reliability.search_kills import killed
from rig.database import Database
from rig.small_search import write_small_search


@pytest.mark.gate("20 s: two rounds of three workers, of which some are killed")
@pytest.mark.parametrize("kind", ["journal", "postgresql"])
def test_no_trial_is_lost_or_counts_twice(tmp_path: Path, kind: str) -> None:
    write_small_search(tmp_path)
    if kind == "journal":
        kills = killed(tmp_path, 2, 3, None)
    else:
        with Database() as database:
            kills = killed(tmp_path, 2, 3, database)
    for kill in kills:
        assert (kill.lost, kill.twice, kill.trials) == (0, 0, kill.wanted)
