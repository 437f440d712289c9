"""ONNX Runtime's own static quantization of a float ONNX file: QDQ, uint8 activations, int8 weights per channel."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter

IMAGES = 4
OPSET = 13
"""The first with scales per channel."""


def write_int8(file: Path, out: Path) -> Path:
    """Write the int8 file, with min-max ranges of a few random images of pixels 0 .. 255: for speed, not for use."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.load(file)
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    source = model.graph.input[0]
    shape = [side.dim_value or 1 for side in source.type.tensor_type.shape.dim]

    class RandomImages(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images = _images(source.name, shape)

        def get_next(self) -> dict[str, Any] | None:
            return next(self._images, None)

    prepared = out.with_suffix(".prepared.onnx")
    onnx.save(model, str(prepared))
    quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
    quantize_static(
        str(prepared),
        str(out),
        RandomImages(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    prepared.unlink()
    return out


def _images(name: str, shape: list[int]) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(0)
    for _ in range(IMAGES):
        yield {name: rng.uniform(0, 255, shape).astype(np.float32)}
