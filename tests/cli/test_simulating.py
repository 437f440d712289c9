"""`simulate eval`: the accuracy and the integers of a model in PyTorch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.tasks import MultiLabel
from edgemeta.model.zoo import find
from tests.tasks.models import vector_model

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.session import SimulatedSession


@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper"])
def test_every_integer_is_the_references(edgemeta: Any, edgemeta_json: Any, labelled: Path, name: str) -> None:
    result = edgemeta_json("simulate", "eval", name, "--data", labelled)
    same = edgemeta_json("eval", name, "--data", labelled, "--backend", "reference")
    assert result == {"top1": same["top1"], "images": 40, "mismatches": 0, "sha256": load(find(name)).digest}
    text = edgemeta("simulate", "eval", name, "--data", labelled).stdout
    assert "40 images, 0 mismatches against the reference in" in text


def test_a_model_of_another_task(edgemeta: Any, labelled: Path, tmp_path: Path) -> None:
    save(vector_model(MultiLabel(tuple("abc")), 3), tmp_path / "tags.safetensors")
    done = edgemeta("simulate", "eval", tmp_path / "tags.safetensors", "--data", labelled)
    assert done.returncode == 1
    assert "its task is multi-label, accuracy is measured for classification only" in done.stderr


def test_a_wrong_integer_anywhere_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one tensor of one image of five, in a layer that is no output."""
    model = load(find("resnet8-cifar10"))
    session = SimulatedSession(model)
    batch = np.random.default_rng(1).integers(-128, 128, (5, *model.input.shape)).astype(model.input.dtype)
    outputs = session.run(batch)
    for found, expected in zip(outputs, reference.run(model, batch), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    assert (session.images, session.mismatches) == (5, 0)
    trace = reference.trace

    def changed(*arguments: Any) -> dict[str, Any]:
        tensors = trace(*arguments)
        tensors[model.layers[2].name][3, 0, 0, 0] ^= 1
        return tensors

    monkeypatch.setattr(reference, "trace", changed)
    session.run(batch)
    assert (session.images, session.mismatches) == (10, 1)
