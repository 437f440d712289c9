"""The config of a simulated training: what it means, and what is refused with file and line."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.training.config import load_config
from edgemeta.toolchain.train.designs import Design


def test_read(write_config: Callable[..., Path]) -> None:
    config = load_config(write_config(seed=7, loss_scale=1024, rounding={"training": "half_up"}))
    assert config.design(24, 3) == Design(3, 24, "resnet", 8, 0.25)
    assert (config.loss_scale, config.schedule, config.batch) == (1024.0, "cosine", 16)
    rules = config.simulation
    assert rules is not None
    assert (rules.seed, rules.roundings.training, len(rules.rules)) == (7, "half_up", 1)
    assert load_config(write_config(rules=None)).simulation is None
    assert load_config(write_config(loss_scale="dynamic")).loss_scale == "dynamic"


def test_the_digest_changes_with_everything_that_decides_the_steps(write_config: Callable[..., Path]) -> None:
    design = Design(3, 24)
    digests = {
        load_config(write_config(**changes)).digest(design, None)
        for changes in (
            *({}, {"lr": 0.2}, {"seed": 2}, {"loss_scale": 8}, {"rules": None}),
            *({"epochs": 4}, {"pad": 0}, {"mixed_precision": True}, {"start": "a", "soft": 0.5}, {"softness": 2}),
        )
    }
    config = load_config(write_config())
    digests |= {config.digest(replace(design, depth=14), None), config.digest(design, "start")}
    assert len(digests) == 12
    assert config.digest(design, None) in digests


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("epochs: 0", "line 1: epochs: Input should be greater than or equal to 1"),
        ("batch: 8", "line 1: epochs: Field required"),
        ("epochs: 1\nepoch: 2", "line 2: epoch: there is no such entry"),
        ("epochs: 1\nnetwork:\n  depths: 8", r"line 3: network\.depths: there is no such entry"),
        ("epochs: 1\nnetwork: {family: vgg}", r"line 2: network\.family: Input should be 'resnet', 'mobilenetv2'"),
        ("epochs: 1\nschedule: steps", "line 2: schedule: Input should be 'cosine', 'linear' or 'constant'"),
        ("epochs: 1\nloss_scale: -1", "line 2: loss_scale"),
        ("epochs: 1\nsoft: 0.5", "line 1: .*soft is 0.5, which needs the float model `start` to learn from"),
        ("epochs: 1\nstart: a\nsoft: 2", "line 3: soft: Input should be less than or equal to 1"),
        ("epochs: 1\nrules:\n- layers: '*'\n  weight: int9", r"line 4: rules\.0\.weight: found the format 'int9'"),
        ("epochs: 1\nrounding: {evaluation: stochastic}", "line 2: .*stochastic is for training only"),
        ("- 1", "line 1: the whole: Input should be a valid dictionary"),
        ("epochs: [", "is not valid YAML"),
    ],
)
def test_what_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(lines)
    with pytest.raises(SimulateError, match=f"^{path} {message}"):
        load_config(path)


def test_what_does_not_fit_the_data(write_config: Callable[..., Path]) -> None:
    path = write_config(network={"depth": 9}, batch=18)
    config = load_config(path)
    with pytest.raises(SimulateError, match=rf"^{path} line \d+: depth is 9, expected one of 8, 14, 20$"):
        config.design(24, 3)
    with pytest.raises(SimulateError, match=rf"^{path} line 1: batch is 18, expected at most 17, all training images"):
        config.require_batch(17, 1)
    with pytest.raises(SimulateError, match=rf"^{path} line 1: batch is 18, expected a multiple of 4, the workers"):
        config.require_batch(100, 4)
    config.require_batch(18, 3)


def test_no_file(tmp_path: Path) -> None:
    found: Any = tmp_path / "none.yaml"
    with pytest.raises(SimulateError, match=r"none\.yaml cannot be read"):
        load_config(found)
