"""The network gives what its task says, and its exported graph the same."""

import numpy as np
import pytest
import torch

from edgemeta.model.float_reference import normalized, outputs
from edgemeta.tasks.detection.boxes import cells_of, decode
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.detector.network import ANCHORS, STRIDES, by_anchor, decoded, task_of, tiny_yolo

LABELS = ("cup", "pen", "key")
ANCHOR_SIZES = [(6.0, 9.0), (12.0, 10.0), (14.0, 20.0), (30.0, 24.0), (40.0, 50.0), (60.0, 58.0)]
TASK = task_of(LABELS, ANCHOR_SIZES)
SIZE = 64


def network(width: float = 0.125) -> TorchNetwork:
    torch.manual_seed(1)
    return tiny_yolo(SIZE, width, TASK).eval()


def test_the_task_has_the_great_anchors_on_the_coarse_grid() -> None:
    coarse, fine = TASK.levels
    assert coarse.anchors == tuple(ANCHOR_SIZES[3:])
    assert fine.anchors == tuple(ANCHOR_SIZES[:3])
    assert (TASK.decoding, TASK.labels) == ("yolov3", LABELS)


def test_export_equals_pytorch() -> None:
    net = network()
    pixels = np.random.default_rng(5).integers(0, 256, (2, SIZE, SIZE, 3)).astype(np.uint8)
    model = net.written(name="net")
    with torch.no_grad():
        wanted = net(network_input(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))))
    found = outputs(model, normalized(model, pixels))
    assert model.outputs == net.outputs
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other.permute(0, 2, 3, 1).numpy(), atol=1e-4)


def test_grids_and_channels() -> None:
    with torch.no_grad():
        found = network()(torch.zeros(2, 3, SIZE, SIZE))
    sides = [SIZE // stride for stride in STRIDES]
    expected = [(2, ANCHORS * n, side, side) for side in sides for n in (4, 1, len(LABELS))]
    assert [tuple(each.shape) for each in found] == expected


def test_a_fresh_network_finds_nothing() -> None:
    with torch.no_grad():
        found = network()(torch.rand(2, 3, SIZE, SIZE))
    for number, part in enumerate(found):
        if number % 3:  # not the boxes
            assert float(torch.sigmoid(part).max()) < 0.1


@pytest.mark.parametrize("number", [0, 1])
def test_boxes_are_decoded_as_the_service_decodes_them(number: int) -> None:
    """The numbers of a level, in float32, beside `tasks.detection`, in float64."""
    rng = np.random.default_rng(3)
    level, stride = TASK.levels[number], STRIDES[number]
    side = SIZE // stride
    output = torch.from_numpy(rng.normal(0, 1.5, (1, 4 * ANCHORS, side, side)).astype(np.float32))
    ours = decoded(by_anchor(output), torch.tensor(level.anchors), stride)[0]
    rows = output[0].permute(1, 2, 0).reshape(-1, 4).double().numpy()
    theirs = decode(TASK, rows, cells_of(level, (side, side), (SIZE, SIZE)))
    np.testing.assert_allclose(ours.permute(1, 2, 0, 3).reshape(-1, 4).numpy(), theirs, atol=1e-3)
