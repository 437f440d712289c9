"""A recorded calibration gives the integers of the calibration itself, and fits no other network."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import encode
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from edgemeta.toolchain.quantize.recorded import Record, RecordedScheme, RecordedTensor
from tests.toolchain.quantize.test_channels import joined, network


def recorded(images: Any, folder: Path) -> tuple[RecordedScheme, Any]:
    """The scheme of a record of a network with scales for each channel, and what built it."""
    model = network("silu")
    lowering = Prepared(model, images(model), Events()).builder(Choice("mse", "multiplier"))
    path = folder / "record.json"
    path.write_text(Record.of(lowering).text())
    return RecordedScheme(path), lowering


def test_the_integers_are_those_of_the_calibration(images: Any, tmp_path: Path) -> None:
    scheme, lowering = recorded(images, tmp_path)
    model = network("silu")
    again = scheme.run(model, (), Events()).model
    assert again.provenance == {"scheme": "recorded", "record": "record.json"}
    assert encode(again) == encode(scheme.run(model, (), Events()).model)
    batch = np.concatenate(list(images(model)))
    pair = [reference.run(each, batch)[0].astype(np.int64) for each in (lowering.build(), again)]
    assert np.abs(pair[0] - pair[1]).max() <= 1  # scales have four digits
    assert np.mean(pair[0] == pair[1]) > 0.9


def test_a_record_of_a_record_is_the_same(images: Any, tmp_path: Path) -> None:
    scheme, _ = recorded(images, tmp_path)
    assert Record.of(scheme.lowering(network("silu"))).text() == scheme.path.read_text()


def test_a_part_of_a_concatenation_keeps_the_scale_of_the_whole(images: Any, tmp_path: Path) -> None:
    """Its own greatest step is less than the scale, which a layer that sums over channels takes."""
    model = joined(plain=True)
    lowering = Prepared(model, images(model), Events()).builder(Choice("minmax", "multiplier"))
    (tmp_path / "record.json").write_text(Record.of(lowering).text())
    again = RecordedScheme(tmp_path / "record.json").lowering(model)
    scales = [again.grids[name].scale for name in ("r", "s", "j")]
    assert scales == [scales[0]] * 3
    assert scales[0] == pytest.approx(lowering.grids["j"].scale, rel=5e-4)
    assert min(again.grids[name].step.max() for name in ("r", "s")) < scales[0]


def test_a_record_of_another_network_is_refused(images: Any, tmp_path: Path) -> None:
    scheme, _ = recorded(images, tmp_path)
    model = network("silu")
    other = replace(model, layers=(*model.layers[:3], replace(model.layers[3], name="mean")), outputs=("mean",))
    with pytest.raises(QuantizeError, match=r"record\.json: has no tensor 'mean': expected the record of this network"):
        scheme.run(other, (), Events())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"step":[', '"step":[1.0,', r"tensor 'p' has 7 steps and 6 starts, expected 6 each"),
        ('"signed":true', '"signed":1.5', r"is no record of a calibration: tensors\.\w+\.signed: "),
        ('"tensors"', '"tensor"', "is no record of a calibration: tensors: Field required"),
        ("{", "", "is no record of a calibration: the file: Invalid JSON"),
    ],
)
def test_a_damaged_record_is_one_sentence(old: str, new: str, reason: str, images: Any, tmp_path: Path) -> None:
    scheme, _ = recorded(images, tmp_path)
    text = scheme.path.read_text()
    if old not in text:
        old, new = old.replace("true", "false"), new.replace("true", "false")
    assert old in text
    scheme.path.write_text(text.replace(old, new, 1))
    with pytest.raises(QuantizeError, match=rf"record\.json: .*({reason})"):
        scheme.run(network("silu"), (), Events())


def test_a_record_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(QuantizeError, match=r"none\.json: cannot be read: No such file"):
        RecordedScheme(tmp_path / "none.json").run(network("silu"), (), Events())


def test_a_zero_point_outside_of_the_integers_is_refused() -> None:
    with pytest.raises(QuantizeError, match=r"has the zero point 200, expected -128 to 127"):
        RecordedTensor(zero_point=200, signed=True, scale=1.0).read((1, 1, 1))
