"""The comparison of searched bits with the same everywhere."""

import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("optuna", reason="Optuna is not installed (pip install 'edgemeta[search]')")

from benchmarks import searched_bits
from benchmarks.searched_bits import is_better, main
from rig.small_search import small_config, write_small_search


def test_three_networks_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_small_search(tmp_path)
    config = tmp_path / "search.yaml"
    config.write_text(yaml.safe_dump(small_config(tmp_path, trials=4).model_dump(exclude_defaults=True, mode="json")))
    written: dict[str, object] = {}
    monkeypatch.setattr(searched_bits, "write_json", lambda name, _command, values: written.update({name: values}))
    monkeypatch.setattr(searched_bits, "write_markdown", lambda *_: None)
    data = str(tmp_path / "data.npz")
    arguments = ["--config", str(config), "--data", data, "--test", data, "--folder", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["searched_bits.py", *arguments, "--uniform", "4", "8"])
    with pytest.raises(SystemExit):
        main()
    (values,) = written.values()
    networks = values["networks"]  # type: ignore[index]
    assert list(networks) == ["all 4", "all 8", "searched"]
    assert networks["all 4"]["weights"] < networks["all 8"]["weights"]
    assert networks["all 8"]["accuracy"] > networks["all 4"]["accuracy"]
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize(
    ("change", "good"), [({}, True), ({"test": 88.9}, False), ({"objective": 0.8}, False), ({"features": 0.6}, False)]
)
def test_better_is_smaller_and_hardly_less_accurate(change: dict[str, float], good: bool) -> None:
    six = {"weights": 0.2, "features": 0.6, "objective": 0.8, "test": 85.0}
    eight = {"weights": 0.25, "features": 0.8, "objective": 1.0, "test": 90.0}
    searched = {"weights": 0.15, "features": 0.5, "objective": 0.7, "test": 89.0} | change
    assert is_better({"all 6": six, "all 8": eight, "searched": searched}) == good
