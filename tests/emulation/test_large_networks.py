"""Networks of hundreds of layers, emulated: every integer of every output equals the reference's.

MobileNetV2 has depthwise convolutions and additions; YOLOX-nano has tables, slices, pools, concatenations, upsampled
maps and nine outputs. Weights of MobileNetV2 are random: benchmarks/topologies.py.
"""

from pathlib import Path

import pytest

from benchmarks.onnx_int8 import write_int8
from benchmarks.topologies import write_topology
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.plugins.measure import random_image
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from tests.conformance.networks import assert_equal_outputs
from tests.emulation.executor import Emulator

BGR = Pixels((127.5,), (127.5,), "bgr")


def mobilenet_v2(folder: Path, side: int) -> Model:
    int8 = write_int8(write_topology("mobilenet_v2", folder, side), folder / "int8.onnx")
    model = import_network(int8, folder / "mobilenet_v2.safetensors", Pixels()).model
    assert isinstance(model, Model)
    return model


def assert_equal(model: Model, architecture: str, mode: str) -> set[str]:
    """The folders of the kernels that ran."""
    plan = lower(model, ARCHITECTURES[architecture])
    image = random_image(model)
    assert_equal_outputs(Emulator(plan, 3, mode).run(image), reference.run(model, image))
    return {launch.source.path.split("/")[0] for launch in plan.launches}


@pytest.mark.gate("20 s of processor time: 17,000 channels are lowered, 46 kernels compiled")
def test_mobilenet_v2_of_small_images(tmp_path: Path) -> None:
    assert assert_equal(mobilenet_v2(tmp_path, 64), "sm_53", "quick") >= {"grouped", "pool_dense"}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_mobilenet_v2(architecture: str, tmp_path: Path) -> None:
    assert_equal(mobilenet_v2(tmp_path, 224), architecture, "fast")


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_yolox_nano(architecture: str, tmp_path: Path, shared_data: Path) -> None:
    model = import_network(shared_data / "networks" / "yolox_nano_int8.tflite", tmp_path / "net.safetensors", BGR).model
    assert isinstance(model, Model)
    assert len(model.outputs) == 9
    assert assert_equal(model, architecture, "fast") >= {"grouped", "pool", "rearrange", "elementwise"}
