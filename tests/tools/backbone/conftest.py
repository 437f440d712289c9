"""A small teacher, pictures to draw views of, and a recipe that takes seconds."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install edgemeta[train]")

from edgemeta.toolchain.data.dataset import Alternates, Dataset
from tools.backbone.recipe import HELD_OUT, BackboneRecipe, Imitation
from tools.backbone.train import Pictures


@pytest.fixture(scope="module")
def teacher_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions of stride 2, one after the other: "a" and "b" are maps of interest, "c" is beyond them."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install edgemeta[import]")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install edgemeta[test]")
    rng, nodes, weights, cin, source = np.random.default_rng(3), [], [], 3, "images"
    for name, cout in (("a", 4), ("b", 6), ("c", 5)):
        values = (rng.normal(0, 0.02, (cout, cin, 3, 3))).astype(np.float32)
        weights.append(onnx.numpy_helper.from_array(values, f"w{name}"))
        pads, strides = [1, 1, 1, 1], [2, 2]
        nodes.append(onnx.helper.make_node("Conv", [source, f"w{name}"], [name], pads=pads, strides=strides))
        cin, source = cout, name
    image = onnx.helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, [1, 3, 64, 64])
    last = onnx.helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(nodes, "teacher", [image], [last], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)], ir_version=8)
    path = tmp_path_factory.mktemp("teacher") / "teacher.onnx"
    onnx.save(model, str(path))
    return path


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread of PyTorch: others wait for each other on a machine with other work."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def recipe() -> BackboneRecipe:
    imitations = (Imitation("a", 4, 2, 8, 1.0), Imitation("b", 6, 3, 4, 0.5))
    return BackboneRecipe(
        view=32, size=32, half=8, labelled=4, mosaics=2, steps=2, epochs=2, warmup=2, imitations=imitations
    )


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 256, (HELD_OUT + 20, 32, 32, 3), np.uint8)
    other = Alternates(255 - x[[2, 3]], np.array([2, 3]))
    photographs = [rng.integers(0, 256, (50, 70, 3), np.uint8), rng.integers(0, 256, (40, 36, 3), np.uint8)]
    return Pictures(Dataset(x, rng.integers(0, 10, len(x))), other, photographs)
