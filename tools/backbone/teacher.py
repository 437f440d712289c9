"""The teacher: a network of others, run in ONNX Runtime as far as the maps that the backbone learns to imitate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edgemeta.toolchain.errors import ImportedFileError, MissingExtraError
from tools.backbone.recipe import Imitation


class Teacher:
    """Maps of a network that takes B, G, R planes of 0..255, as YOLOX does, of views of any size.

    Raises MissingExtraError without onnx and ONNX Runtime, ImportedFileError for a file without the maps.
    """

    def __init__(self, path: Path, imitations: Sequence[Imitation], size: int) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError(
                "the backbone's training needs ONNX Runtime, which is not installed: pip install edgemeta[bench]"
            ) from error
        self._imitations = tuple(imitations)
        self._names = list(dict.fromkeys(each.map for each in imitations))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(_cut(path, self._names, size), options)
        self._input = self._session.get_inputs()[0].name

    def maps(self, views: NDArray[np.uint8]) -> list[Tensor]:
        """For each imitation its map, float32 [B, channels, rows, rows], of views uint8 [B, H, W, 3] RGB."""
        planes = np.ascontiguousarray(views[..., ::-1].transpose(0, 3, 1, 2)).astype(np.float32)
        found = dict(zip(self._names, self._session.run(self._names, {self._input: planes}), strict=True))
        return [_on_grid(torch.from_numpy(found[each.map]), each.rows) for each in self._imitations]


def _on_grid(maps: Tensor, rows: int) -> Tensor:
    if maps.shape[-1] == rows:
        return maps
    return functional.interpolate(maps, size=(rows, rows), mode="bilinear", antialias=True, align_corners=False)


def _cut(path: Path, maps: Sequence[str], size: int) -> bytes:
    """The part of an ONNX file that computes the maps, for any number of images of size x size."""
    import onnx

    try:
        model = onnx.load(str(path))
    except Exception as error:  # a damaged file can fail in any way
        raise ImportedFileError(f"{path}: cannot be read as an ONNX file, expected the teacher's") from error
    graph = model.graph
    needed, nodes = set(maps), []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
    made = {name for node in nodes for name in node.output}
    for name in maps:
        if name not in made:
            raise ImportedFileError(f"{path}: has no tensor {name}, expected the teacher of the recipe")
    _replace(graph.node, nodes[::-1])
    _replace(graph.initializer, [each for each in graph.initializer if each.name in needed])
    _replace(graph.value_info, [])
    float32 = onnx.TensorProto.FLOAT
    _replace(graph.output, [onnx.helper.make_tensor_value_info(name, float32, None) for name in maps])
    side = graph.input[0].type.tensor_type.shape.dim
    side[0].dim_param = "images"
    side[2].dim_value = side[3].dim_value = size
    content: bytes = model.SerializeToString()
    return content


def _replace(entries: Any, new: list[Any]) -> None:
    del entries[:]
    entries.extend(new)
