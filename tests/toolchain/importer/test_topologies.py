"""Whole networks: the imported float graph gives what ONNX Runtime gives."""

from pathlib import Path

import pytest

from benchmarks.topologies import TOPOLOGIES, write_topology
from tests.toolchain.importer.views import largest_difference

LIMIT = 1e-4
SIDE = 64
"""Smaller images than usual."""
LONG = pytest.mark.gate("5 to 30 s: hundreds of megabytes of weights, or a large image")


@pytest.mark.parametrize("name", ["mobilenet_v3_small", "shufflenet_v2", "squeezenet"])
def test_a_network_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert largest_difference(write_topology(name, tmp_path, SIDE)) < LIMIT


@LONG
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "vgg16" else name for name in TOPOLOGIES]
)
def test_a_network_of_usual_size_equals_onnx_runtime(name: str, tmp_path: Path) -> None:
    assert largest_difference(write_topology(name, tmp_path)) < LIMIT


@LONG
def test_yolox_nano_equals_onnx_runtime(shared_data: Path) -> None:
    """A network that nobody here made."""
    assert largest_difference(shared_data / "networks" / "yolox_nano.onnx", deviation=64.0) < LIMIT / 4
