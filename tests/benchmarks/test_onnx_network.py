"""The network that TensorRT is timed with: as ONNX it computes what the PyTorch module beside it does."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install edgemeta[test]")

from benchmarks.gpu.onnx_network import onnx_network  # noqa: E402
from benchmarks.gpu.torch_network import torch_resnet8  # noqa: E402
from edgemeta.model.float_file import load_float_model  # noqa: E402
from edgemeta.model.zoo import find  # noqa: E402


@pytest.mark.parametrize(("kind", "error"), [("float32", 1e-4), ("float16", 0.02)])
def test_the_onnx_file_computes_what_pytorch_does(kind: str, error: float) -> None:
    model = load_float_model(find("resnet8-cifar10-float"))
    images = np.random.default_rng(0).standard_normal((3, 3, 32, 32)).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx_network(model, 3, kind), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"input": images.astype(kind)})
    with torch.inference_mode():
        expected = torch_resnet8(model)(torch.from_numpy(images)).numpy()
    assert logits.dtype == kind
    assert np.abs(logits - expected).max() < error
    assert np.ptp(expected) > 1
