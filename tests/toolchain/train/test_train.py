"""Verb train: files in, a float model file out."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model.float_file import load_float_model
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.data.split import held_out
from edgemeta.toolchain.errors import DataError, MissingExtraError, RecipeError
from edgemeta.toolchain.train.train import train

RECIPE = """
name: tiny
labels: [a, b, c, d, e, f, g, h, i, j]
teacher: {epochs: 1, batch: 10, widths: [4, 4], bias_lr: 1, lr: 0.01}
student: {epochs: 1, batch: 10, warmup_epochs: 0}
"""


@pytest.fixture
def files(tmp_path: Path, pixels: Any, classes: Any) -> dict[str, Any]:
    """Arguments of `train`."""
    (tmp_path / "tiny.yaml").write_text(RECIPE)
    np.savez(tmp_path / "data.npz", x=pixels, y=classes)
    np.savez(tmp_path / "test.npz", x=255 - pixels, y=classes)
    return {
        "recipe": str(tmp_path / "tiny.yaml"),
        "data": tmp_path / "data.npz",
        "test": tmp_path / "test.npz",
        "folder": tmp_path / "run",
        "out": tmp_path / "tiny.safetensors",
    }


def test_train_and_export(files: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    threads = torch.get_num_threads()
    result = train(**files, threads=1)
    torch.set_num_threads(threads)
    model = load_float_model(files["out"])
    assert model.name == "tiny"
    assert (result.images, result.epochs) == (20, 1)
    assert model.provenance["test_accuracy"] == result.accuracy
    assert model.labels == tuple("abcdefghij")
    assert model.provenance["train_pixels_sha256"] != model.provenance["test_pixels_sha256"]
    first = files["out"].read_bytes()
    assert train(**files, threads=1) == result  # the run is finished, nothing is trained again
    assert files["out"].read_bytes() == first
    said: list[str] = []
    assert train(**files, threads=1, fresh=True, report=said.append) == result
    assert said == [f"{files['folder']}: deleted the run in it (12 files) to start afresh"]


def test_the_images_that_a_recipe_holds_out_are_kept(files: dict[str, Any]) -> None:
    """For a temperature and a rule of rejection, which are fitted to images that took no part in training."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    threads = torch.get_num_threads()
    Path(files["recipe"]).write_text(RECIPE.replace("labels:", "validation: 0.5\nlabels:"))
    result = train(**files, threads=1)
    torch.set_num_threads(threads)
    assert result.held_out == files["folder"] / "validation.npz"
    kept, images = load_dataset(result.held_out), load_dataset(files["data"], labels=tuple("abcdefghij"))
    share = held_out(images, 0.5, 1)
    assert 0 < share.sum() < len(images)
    np.testing.assert_array_equal(kept.x, images.x[share])
    np.testing.assert_array_equal(kept.y, images.y[share])
    assert kept.labels == images.labels


def test_own_data_do_not_keep_the_recipes_name(files: dict[str, Any], pixels: Any, classes: Any) -> None:
    """The file, and with it messages and metrics, said "resnet8-cifar10" about pictures of anything."""
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    threads = torch.get_num_threads()
    own, test = (files["data"].with_name(name) for name in ("gate.npz", "later.npz"))
    for path, x in ((own, pixels), (test, 255 - pixels)):
        np.savez(path, x=x, y=classes % 2, labels=np.array(["closed", "open"]))
    train(**{**files, "data": own, "test": test}, threads=1)
    model = load_float_model(files["out"])
    assert model.name == "resnet8-gate"
    assert model.labels == ("closed", "open")
    assert "tiny" not in str(model.provenance)
    train(**{**files, "data": own, "test": test}, name="my-gate", threads=1)
    assert load_float_model(files["out"]).name == "my-gate"
    torch.set_num_threads(threads)


def test_without_torch(files: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"PyTorch, which is not installed: pip install edgemeta\[train\]"):
        train(**files)


def test_wrong_arguments_are_found_before_training(files: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such recipe"):
        train(**{**files, "recipe": "nothing"})
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    with pytest.raises(DataError, match=r"none\.npz: cannot be read"):
        train(**{**files, "data": tmp_path / "none.npz"})


def test_data_without_names_of_classes_need_a_recipe_that_has_them(files: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    (tmp_path / "tiny.yaml").write_text(RECIPE.replace("labels:", "# labels:"))
    with pytest.raises(DataError, match=r"data\.npz: does not name its classes, expected `labels`"):
        train(**files)


def test_training_images_are_no_test_images(files: dict[str, Any], tmp_path: Path, pixels: Any) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")
    with pytest.raises(DataError, match=r"data\.npz: all 20 test pictures are also training pictures of .*data\.npz"):
        train(**{**files, "test": files["data"]})
    assert not files["out"].exists()
    said: list[str] = []
    np.savez(tmp_path / "test.npz", x=np.concatenate([255 - pixels[:10], pixels[10:]]), y=np.arange(20) % 10)
    train(**files, report=said.append)
    assert said == [f"{files['test']}: 10 of 20 test pictures are also training pictures of {files['data']}"]


def test_the_toolchain_imports_without_torch() -> None:
    import subprocess

    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import edgemeta.toolchain.train.train, edgemeta.toolchain.train.own_pictures, edgemeta.cli.workshop\n"
        "import edgemeta.toolchain.quantize.quantize, edgemeta.toolchain.data.dataset"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
