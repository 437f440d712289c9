"""Whole searches of a small network."""

from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from edgemeta.model.file import load
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.objective import objective
from edgemeta.toolchain.search.report import html
from edgemeta.toolchain.search.result import best, front, outcomes, save_chosen, values_of
from edgemeta.toolchain.search.run import RESULT, SearchObserver, search


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("scheme", ["binary", "fixed", "power-of-two"])
def test_a_search_of_each_scheme(config: Any, tmp_path: Path, scheme: str) -> None:
    searched = search(config(scheme=scheme), tmp_path)
    assert len(searched.trials) == 8
    found = outcomes(searched.trials)
    for trial in searched.trials:
        result = trial.user_attrs[RESULT]
        assert result["images"] in (20, 40, 60)
        assert (result["images"] == 60) == (trial.state == TrialState.COMPLETE)
    chosen = best(found)
    assert chosen.objective == min(each.objective for each in found)
    saved = save_chosen(searched, chosen, tmp_path / "best.safetensors", None, print)
    model = load(saved.path)
    assert model.provenance["search"]["study"] == "small"  # type: ignore[index]
    assert model.provenance["weights"] == dict(chosen.weights)
    values = values_of(searched.config, searched, saved, None)
    assert values["trials"] == 8
    assert values["best"]["bytes"] == chosen.bytes
    assert values["front"]
    page = html(searched)
    assert page.count("<svg") == 3
    assert f"Least C: trial {chosen.trial}" in page


def test_the_results_are_those_of_the_chosen_networks(config: Any, tmp_path: Path) -> None:
    from edgemeta.toolchain.search.evaluator import Evaluator
    from edgemeta.toolchain.search.objective import Costs, bits_of

    searched = search(config(rungs=[]), tmp_path)
    network = searched.setup.network
    evaluator = Evaluator(network.model, searched.setup.judge)
    for trial in searched.trials:
        bits = bits_of(trial.params)
        running = evaluator.run(network.build(bits))
        accuracy = running.accuracy(60)
        running.close()
        assert trial.user_attrs[RESULT]["accuracy"] == accuracy
        sizes = Costs(network).of(bits)
        assert trial.value == objective(searched.config.objective, evaluator.float_accuracy(60), accuracy, sizes)


def test_the_sensitivities_give_the_first_trials(config: Any, tmp_path: Path) -> None:
    searched = search(config(trials=4), tmp_path)
    assert [trial.user_attrs["key"] for trial in searched.trials][:3] == ["seed:0", "seed:1", "seed:2"]
    for row in searched.sensitivity.values():
        assert row[8] == 0
        assert row[2] > row[6]
    assert search(config(trials=2, sensitivity=0, name="plain"), tmp_path).sensitivity == {}


@pytest.mark.gate("8 s: two searches")
def test_the_same_search_has_the_same_trials(config: Any, tmp_path: Path) -> None:
    one, other = (search(config(), tmp_path / name) for name in ("one", "other"))
    assert [trial.params for trial in one.trials] == [trial.params for trial in other.trials]
    assert [trial.values for trial in one.trials] == [trial.values for trial in other.trials]


def test_several_goals_have_a_front(config: Any, tmp_path: Path) -> None:
    goals = ["accuracy", "bytes", "microseconds"]
    searched = search(config(goals=goals, sampler="random"), tmp_path)
    found = outcomes(searched.trials)
    assert len(found) == 8
    unbeaten = front(found)
    for each in unbeaten:
        assert each.device["microseconds"] > 0
        assert not any(
            other.accuracy > each.accuracy and other.bytes < each.bytes and other.costs < each.costs for other in found
        )
    assert unbeaten == sorted(unbeaten, key=lambda each: each.bytes)


@pytest.mark.gate("10 s: two searches")
def test_an_interrupted_search_goes_on(config: Any, tmp_path: Path) -> None:
    class Stop(SearchObserver):
        def progress(self, done: int, total: int, best: float | None = None) -> None:
            if total == 8 and done == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(config(), tmp_path, Stop())
    searched = search(config(), tmp_path)
    assert len(searched.trials) == 8
    assert [trial.number for trial in searched.trials][:3] == [0, 1, 2]
    whole = search(config(), tmp_path / "whole")
    assert [trial.params for trial in whole.trials] == [trial.params for trial in searched.trials]


@pytest.mark.parametrize(
    ("entries", "message"),
    [({"data": None}, "needs labelled images"), ({"images": 1000, "rungs": []}, "the held-out part has")],
)
def test_what_is_missing_is_one_sentence(config: Any, tmp_path: Path, entries: Any, message: str) -> None:
    with pytest.raises(SearchError, match=message):
        search(config(**entries), tmp_path)
