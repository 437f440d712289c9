"""A finished run as a model file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.file import load

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.data.dataset import load_dataset  # noqa: E402
from edgemeta.toolchain.errors import CheckpointError, SimulateError  # noqa: E402
from edgemeta.toolchain.evaluate.classification import evaluate  # noqa: E402
from edgemeta.toolchain.simulate.session import SimulatedSession  # noqa: E402
from edgemeta.toolchain.simulate.training.exported import export_run  # noqa: E402
from edgemeta.toolchain.simulate.training.train import train_simulated  # noqa: E402

RULES = [
    {"layers": "*", "activation": "int8", "weight": "int4_per_channel"},
    {"layers": "fc", "activation": "int8", "weight": "int8_symmetric"},
]


def test_the_model_has_the_accuracy_of_the_training(
    coloured: tuple[Path, Path], write_config: Callable[..., Path], tmp_path: Path
) -> None:
    """And the simulator gives the reference's integers for it, in every layer of every image."""
    config, run, out = write_config(rules=RULES, epochs=6), tmp_path / "run", tmp_path / "model.safetensors"
    trained = train_simulated(config, *coloured, run)
    result = export_run(config, *coloured, run, out)
    assert result.simulated == trained.accuracy
    assert result.images == 15
    assert result.accuracy >= trained.accuracy - 7  # one image of fifteen
    model = load(out)
    assert model.digest == result.sha256
    assert model.name == "resnet8-w0.25-config"
    assert model.provenance["test_accuracy"] == pytest.approx(result.accuracy / 100)
    session = SimulatedSession(model)
    found = evaluate(model, session, load_dataset(coloured[1], "test"), lambda _done, _total: None)
    assert session.images == 15
    assert session.mismatches == 0
    assert 100 * found.top1 == pytest.approx(result.accuracy)


def test_a_run_that_is_not_finished(
    coloured: tuple[Path, Path], write_config: Callable[..., Path], tmp_path: Path
) -> None:
    config, out = write_config(rules=RULES), tmp_path / "model.safetensors"
    with pytest.raises(SimulateError, match="none: has 0 of 3 epochs, expected a finished run"):
        export_run(config, *coloured, tmp_path / "none", out)
    assert not out.exists()


def test_a_run_of_another_config(
    coloured: tuple[Path, Path], write_config: Callable[..., Path], tmp_path: Path
) -> None:
    train_simulated(write_config(rules=RULES, epochs=1), *coloured, tmp_path / "run")
    with pytest.raises(CheckpointError, match="made with another recipe or seed"):
        export_run(write_config(rules=RULES, epochs=1, lr=0.2), *coloured, tmp_path / "run", tmp_path / "model")


def test_formats_that_no_device_has(
    coloured: tuple[Path, Path], write_config: Callable[..., Path], tmp_path: Path
) -> None:
    config = write_config(rules=[{"layers": "*", "activation": "bfloat16"}], epochs=1)
    train_simulated(config, *coloured, tmp_path / "run")
    out = tmp_path / "model.safetensors"
    with pytest.raises(SimulateError, match="layer 'conv0': its activation is bfloat16, which no device"):
        export_run(config, *coloured, tmp_path / "run", out)
    assert not out.exists()
    np.testing.assert_equal(sorted(each.name for each in tmp_path.glob(".*")), [])
