"""Values of a rollout mean what they would mean in the config file, and are left out where they do not fit."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.config import Config, resolved
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.messages.rollouts import RolloutCommand, lets
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.rollout_store import RolloutStore, with_values
from edgemeta.model.errors import EdgemetaError

KEYS = ("top_k", "log.level", "state.enter_score", "state.min_frames", "publish.frames", "objects.labels", "state")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 1100),
    st.floats(-1, 2),
    st.sampled_from(["debug", "change", "every", "", "0.5"]),
    st.lists(st.sampled_from(["person", "car", ""]), max_size=2),
    st.dictionaries(st.sampled_from(["enter_score", "min_frames", "other"]), st.integers(0, 4), max_size=2),
)
BASE = {"cameras": {"front": {"source": "synthetic://"}}, "state": {"leave_score": 0.1}}


def file_of(folder: Path, content: dict[str, Any]) -> ConfigFile[Config]:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(content))
    return ConfigFile(path, Config)


def written(values: dict[str, Any]) -> dict[str, Any]:
    """The config as somebody would write it: by hand, with all sections of the values."""
    content: dict[str, Any] = yaml.safe_load(yaml.safe_dump(BASE))
    for key, value in values.items():
        *sections, last = key.split(".")
        place = content
        for each in sections:
            if not isinstance(place.get(each), dict):
                place[each] = {}
            place = place[each]
        place[last] = value
    return content


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3))
def test_values_are_checked_and_mean_the_same_as_in_the_file(values: dict[str, Any]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        expected, problems = file_of(folder, written(values)).validate()
        file = file_of(folder, BASE)
        if expected is not None and not problems:
            assert with_values(file, list(KEYS), values) == resolved(expected, folder)
            return
        with pytest.raises(EdgemetaError) as raised:
            with_values(file, list(KEYS), values)
        assert str(raised.value) == "{}: found {}, expected {}".format(*problems[0].shown)


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        (["state"], "state.enter_score", True),
        (["state.enter_score"], "state.enter_score", True),
        (["state.enter_score"], "state", False),
        (["state"], "states", False),
        (["state.enter"], "state.enter_score", False),
        ([], "state", False),
    ],
)
def test_a_listed_key_lets_what_is_below_it_be_set(keys: list[str], key: str, expected: bool) -> None:
    assert lets(keys, key) is expected


@pytest.mark.parametrize(
    "key", ["mqtt", "swap.rollout_keys", "model", "cameras", "cameras.front", "state.nothing", "web.token"]
)
def test_only_keys_that_are_applied_at_once_can_be_listed(key: str, tmp_path: Path) -> None:
    content = BASE | {"swap": {"rollouts": "offer", "rollout_keys": [key]}}
    file_of(tmp_path, content)
    with pytest.raises(
        EdgemetaError, match=r"swap\.rollout_keys: found `.*`, expected a key that a reload applies at once"
    ):
        prepare(tmp_path / "config.yaml")


@pytest.mark.parametrize(
    ("values", "keys", "expected"),
    [
        ({"top_k": 2}, ["top_k"], (2, "the values of a rollout are used")),
        ({"top_k": 2}, [], (3, "the values of rollout one are left out: top_k: found a value for it")),
        ({"top_k": 0}, ["top_k"], (3, "the values of rollout one are left out: top_k: found 0, expected at least 1")),
        (
            {"top_k": 2, "label_map": {"purple": "x"}},
            ["top_k", "label_map"],
            (3, "read without the values of a rollout"),
        ),
    ],
)
def test_a_start_does_without_values_that_no_longer_fit(
    values: dict[str, Any], keys: list[str], expected: tuple[int, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = BASE | {"swap": {"rollouts": "offer", "rollout_keys": keys}, "data_folder": str(tmp_path / "state")}
    file_of(tmp_path, content | {"device": "a"})
    config = prepare(tmp_path / "config.yaml").config
    RolloutStore.of(config).accept(RolloutCommand(rollout="one", device="a", model=None, values=values))
    plan = prepare(tmp_path / "config.yaml")
    assert plan.config.top_k == expected[0]
    assert plan.values == (values if expected[0] == 2 else {})
    assert expected[0] == 2 or expected[1] in caplog.text
