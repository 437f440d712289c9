"""Trials shared by workers that die at any point: none is lost, none counts twice."""

import time
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import IntDistribution
from optuna.trial import TrialState

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.ledger import Ledger, open_study
from edgemeta.toolchain.search.storage import open_storage

SPACE = {"weights.a": IntDistribution(2, 8)}


class Workers:
    """Ledgers over one storage, with a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self._path = path
        self.study = open_study(open_storage(str(path)), "s", ["minimize"], "digest")

    def worker(self, lease: float = 10.0) -> Ledger:
        return Ledger(open_storage(str(self._path)), self.study, SPACE, lease, lambda: self.now)


@pytest.fixture(params=["journal", "sqlite"])
def workers(tmp_path: Path, request: pytest.FixtureRequest) -> Workers:
    name = "trials.journal" if request.param == "journal" else f"sqlite:///{tmp_path}/trials.db"
    return Workers(tmp_path / name if request.param == "journal" else name)  # type: ignore[arg-type]


def finish(ledger: Ledger, trial: int | None, value: float = 1.0) -> None:
    assert trial is not None
    assert ledger.finish(trial, [value], pruned=False)


def test_a_dead_workers_trial_is_given_again_after_the_lease(workers: Workers) -> None:
    one, other = workers.worker(), workers.worker()
    dead = one.begin("k", {"weights.a": 3}, 5)
    assert other.abandoned() is None
    workers.now = 9.0
    assert other.abandoned() is None
    workers.now = 11.0
    assert other.abandoned() == ("k", {"weights.a": 3})
    again = other.begin("k", {"weights.a": 3}, 5)
    assert dead is not None
    assert not one.finish(dead, [7.0], pruned=False), "what was given to another one no longer counts"
    finish(other, again, 2.0)
    assert [trial.values for trial in other.counted()] == [[2.0]]
    assert other.abandoned() is None


def test_a_worker_that_shows_signs_of_life_keeps_its_trial(workers: Workers) -> None:
    one, other = workers.worker(), workers.worker()
    trial = one.begin("k", {"weights.a": 3}, 5)
    for number in range(5):
        workers.now += 9.0
        one._storage.set_study_user_attr(workers.study, f"alive:{one.worker}", number)
        assert other.abandoned() is None
    finish(one, trial)


def test_the_first_of_two_trials_of_a_key_counts(workers: Workers) -> None:
    one, other = workers.worker(), workers.worker()
    first = one.begin("k", {"weights.a": 3}, 5)
    assert other.begin("k", {"weights.a": 3}, 5) is None
    finish(one, first)
    assert len(one.counted()) == len(other.counted()) == 1


def test_a_study_has_as_many_keys_as_its_limit(workers: Workers) -> None:
    one, other = workers.worker(), workers.worker()
    trials = [one.begin("a", {"weights.a": 3}, 2)]
    finish(one, trials[0])
    trials.append(one.begin("b", {"weights.a": 4}, 2))
    assert other.begin("c", {"weights.a": 5}, 2) is None
    assert not other.open_keys(2)
    assert other.open_keys(3)
    finish(one, trials[1])
    assert [trial.user_attrs["key"] for trial in other.counted()] == ["a", "b"]
    assert other.abandoned() is None, "a surplus trial is not given again"


def test_a_key_whose_trials_all_failed_is_given_again_and_keeps_its_place(workers: Workers) -> None:
    one, other = workers.worker(), workers.worker()
    trial = one.begin("a", {"weights.a": 3}, 2)
    assert trial is not None
    assert one.fail(trial)
    assert not one.fail(trial)
    finish(other, other.begin("b", {"weights.a": 4}, 2))
    assert other.begin("c", {"weights.a": 5}, 2) is None
    assert other.abandoned() == ("a", {"weights.a": 3})
    finish(other, other.begin("a", {"weights.a": 3}, 2))
    assert len(other.counted()) == 2


def test_a_write_whose_answer_was_lost_is_repeated_without_harm(workers: Workers) -> None:
    one = workers.worker()
    first = one.begin("a", {"weights.a": 3}, 2)
    second = one.begin("a", {"weights.a": 3}, 2)
    assert second != first
    finish(one, second)
    assert second is not None
    assert one.finish(second, [1.0], pruned=False), "it has ended as wanted"
    assert [trial.state for trial in one.trials()] == [TrialState.FAIL, TrialState.COMPLETE]
    assert len(one.counted()) == 1


def test_a_study_of_another_search_is_refused(workers: Workers, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="was begun with other settings"):
        open_study(workers.worker()._storage, "s", ["minimize"], "other")


def test_signs_of_life_change(workers: Workers) -> None:
    one, seen = workers.worker(lease=0.06), set[Any]()
    with one.signs_of_life():
        end = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < end:
            seen |= set(one._storage.get_study_user_attrs(workers.study).values()) - {"digest"}
            time.sleep(0.005)
    assert len(seen) >= 2
