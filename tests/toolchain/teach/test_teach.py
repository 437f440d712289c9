"""A folder becomes a model: its integers, its honesty, its file."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.errors import ModelError
from edgemeta.model.file import encode, load
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import preprocess
from edgemeta.toolchain.data.class_folders import list_class_folders
from edgemeta.toolchain.errors import DataError, TeachError
from edgemeta.toolchain.teach.backbone import make_plan
from edgemeta.toolchain.teach.pictures import chosen, look_at
from edgemeta.toolchain.teach.table import make_table
from edgemeta.toolchain.teach.teach import Settings, Taught, teach, write
from edgemeta.toolchain.teach.views import views

Draw = Callable[..., Path]


def silent(*_: object) -> None:
    pass


def images(model: Model, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    files = list_class_folders(folder, print)
    frames = [cv2.imread(str(files.file(i))) for i in range(len(files))]
    return np.stack([preprocess(frame, model.input, model.preprocessing) for frame in frames]), files.y


def test_it_tells_new_pictures_apart(taught: Taught, draw: Draw, tmp_path: Path) -> None:
    batch, y = images(taught.model, draw(tmp_path / "later", 10, seed=99))
    (logits,) = reference.run(taught.model, batch)
    assert (logits.reshape(20, 2).argmax(1) == y).mean() >= 0.95
    assert taught.findings.accuracy >= 0.9


def test_mirrored_copies_are_not_used_where_left_and_right_matter(taught: Taught) -> None:
    assert not taught.choice.mirrored


def test_the_features_of_the_fit_are_those_of_the_model(taught: Taught, states: Path) -> None:
    """The table in NumPy and the integer layers give the same bits, for every view of every picture."""
    model = taught.model
    plan = make_plan(model_backbone := load_backbone())
    network = replace(model, outputs=tuple(plan.grids))
    files = chosen(list_class_folders(states, print))
    pictures = look_at(files, network, plan, None, print, silent)
    layers = model.by_name
    table = make_table(pictures, layers, plan, np.ones(layers["teach.logits"].weights.shape[1]))
    seen = []
    for name in files.names:
        for view in views(cv2.imread(str(states / name)), name, 4):
            seen.append(preprocess(view, model.input, model.preprocessing))
    expected = reference.trace(model, np.stack(seen))["teach.features"].reshape(len(files), 4, -1)
    np.testing.assert_array_equal(table.features, expected)
    assert model_backbone.name == "resnet8-cifar10"


def load_backbone() -> Model:
    from edgemeta.model.zoo import find

    return load(find("resnet8-cifar10"))


def test_the_same_pictures_give_the_same_bytes(taught: Taught, states: Path, backbone: Model) -> None:
    again = teach(states, backbone, Settings("bar"), print, silent)
    assert encode(again.model) == encode(taught.model)


def test_the_file_says_where_it_comes_from(taught: Taught, backbone: Model, tmp_path: Path) -> None:
    digest = write(taught, tmp_path / "bar.safetensors")
    model = load(tmp_path / "bar.safetensors")
    assert model.digest == digest
    assert model.labels == ("left", "right")
    assert model.provenance["backbone"] == {"name": "resnet8-cifar10", "sha256": backbone.digest}
    assert model.provenance["pictures"] == {"left": 10, "right": 10}
    assert model.provenance["cross_validated_accuracy"] == taught.findings.accuracy
    assert model.self_test is not None
    (outputs,) = reference.run(model, model.self_test.batch)
    np.testing.assert_array_equal(outputs.reshape(len(outputs), -1), model.self_test.expected)


def test_noise_is_not_learnt_by_the_held_out_pictures(tmp_path: Path, backbone: Model) -> None:
    """Pictures without a difference: the accuracy of held-out ones is that of guessing, though the fit is perfect."""
    rng = np.random.default_rng(5)
    for label in "ab":
        (tmp_path / "noise" / label).mkdir(parents=True)
        for i in range(30):
            cv2.imwrite(str(tmp_path / "noise" / label / f"{i}.png"), rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
    found = teach(tmp_path / "noise", backbone, Settings("noise"), print, silent).findings
    assert 0.25 <= found.accuracy <= 0.75


def test_one_class_is_refused(states: Path, backbone: Model, tmp_path: Path, draw: Draw) -> None:
    folder = draw(tmp_path / "one", 5)
    for picture in (folder / "right").iterdir():
        picture.unlink()
    (folder / "right").rmdir()
    with pytest.raises(DataError, match="only the class 'left'"):
        teach(folder, backbone, Settings("one"), print, silent)


def test_a_class_with_too_few_pictures_is_refused(backbone: Model, tmp_path: Path, draw: Draw) -> None:
    folder = draw(tmp_path / "few", 5)
    (folder / "left" / "3.png").write_bytes(b"no picture")
    said: list[str] = []
    with pytest.raises(TeachError, match=r"left: has 4 pictures .* at least 5"):
        teach(folder, backbone, Settings("few"), said.append, silent)
    assert any("3.png" in sentence for sentence in said)


def test_a_folder_that_cannot_be_written_is_one_sentence(taught: Taught, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be written"):
        write(taught, tmp_path / "missing" / "bar.safetensors")
