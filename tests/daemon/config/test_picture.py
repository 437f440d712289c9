"""Mistakes in the keys of a camera's picture are named with key, what was found and what was expected."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"rotation": 45}, "rotation: found 45, expected 0, 90, 180 or 270"),
        ({"circle": {"radius": 0}}, "circle.radius: found 0, expected more than 0"),
        ({"privacy_masks": "all"}, "privacy_masks: found the text 'all', expected a list"),
        ({"privacy_masks": [[[0, 0], [2, 0], [1, 1]]]}, "privacy_masks.0.1.0: found 2, expected at most 1"),
        (
            {"motion": {"ignore": [[[0, 0], [0.5, 0.5], [1, 1]]]}},
            "motion.ignore.0: found a list, expected at least 3 points that enclose an area",
        ),
    ],
)
def test_a_mistake_is_one_clear_sentence(tmp_path: Path, keys: dict[str, Any], expected: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"cameras": {"front": {"source": "synthetic://", **keys}}}))
    file = ConfigFile(path, Config)
    _, problems = file.validate()
    assert [str(mistake).partition(": ")[2] for mistake in file.error(problems).mistakes] == [
        f"cameras.front.{expected}"
    ]
