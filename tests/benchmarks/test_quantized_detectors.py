"""The network that NNCF is given is ours."""

from pathlib import Path

import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import ChannelShuffle, Concat, Pad, Slice, Upsample
from edgemeta.model.tasks import Embedding

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from benchmarks.known_networks import onnx_difference
from benchmarks.quantized_detectors import write_onnx


@pytest.mark.filterwarnings("ignore")  # of the exporter about itself
def test_layers_that_move_elements_are_written(tmp_path: Path) -> None:
    """What is filled in place became a constant: FastestDet lost 4 points in float, and with NNCF."""
    layers = (
        Pad("padded", "input", padding=(1, 2, 3, 0), spacing=(2, 3)),
        Slice("part", "padded", start=(1, 2, 0), stop=(9, 12, 6), step=(2, 3, 1)),
        ChannelShuffle("shuffled", "part", groups=3),
        Upsample("large", "shuffled", factor=(3, 2)),
        Concat("both", ("large", "large")),
    )
    model = FloatModel("moves", (9, 11, 6), layers, ("both", "padded"), Embedding(), colour="rgbrgb")
    names = write_onnx(model, tmp_path / "moves.onnx")
    assert onnx_difference(tmp_path / "moves.onnx", model, names) == 0
