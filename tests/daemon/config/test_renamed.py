"""Every former key of the config gets one error, with its line, that names the new key."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.config.renamed import STEPS
from tools.key_table import keys

RENAMED = {former: new for step in STEPS for former, new in step.renamed.items()}


def nested(path: list[str], value: object) -> dict[str, Any]:
    """A mapping with the value at a path of keys."""
    return {path[0]: nested(path[1:], value) if path[1:] else value}


@pytest.mark.parametrize("former", RENAMED)
def test_a_former_key_is_one_error_that_names_the_new_key(tmp_path: Path, former: str) -> None:
    config: dict[str, Any] = {"device": "d", "cameras": {"front": {"source": "synthetic://"}}}
    steps = former.replace("*", "front").split(".")
    if steps[0] == "cameras":
        config["cameras"]["front"] |= nested(steps[2:], 1)
    else:
        config |= nested(steps, 1)
    path = tmp_path / "c.yaml"
    path.write_text(text := yaml.safe_dump(config, sort_keys=False))
    file = ConfigFile(path, Config)
    checked, problems = file.validate()
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.strip() == f"{steps[-1]}: 1")
    new = RENAMED[former].replace("*", "front")
    assert str(file.error(problems)) == f"{path}:{line}: {'.'.join(steps)}: renamed to {new}"
    assert checked is not None


def test_new_names_exist_and_former_names_do_not() -> None:
    names = {key.name.replace("<name>", "*") for key in keys()}
    known = names | {f"cameras.*.{name}" for name in names if name.startswith(("state.", "publish."))}
    assert set(RENAMED.values()) <= known
    assert not set(RENAMED) & known


def test_a_camera_may_have_the_name_of_a_former_key(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("cameras:\n  timeout:\n    source: synthetic://\n    timeout: 1\n")
    file = ConfigFile(path, Config)
    _, problems = file.validate()
    assert str(file.error(problems)) == f"{path}:4: cameras.timeout.timeout: renamed to cameras.timeout.frame_timeout"
