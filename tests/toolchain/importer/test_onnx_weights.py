"""Large weights are left in their ONNX file: the same network, in less memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.topologies import Network
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer import onnx_weights
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.onnx_weights import skeleton_of
from edgemeta.toolchain.importer.self_check import run
from tests.toolchain.importer.views import largest_difference


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_weights, "LEAST_FILE", 0)
    monkeypatch.setattr(onnx_weights, "LEAST_TENSOR", 64)


def written(path: Path) -> Path:
    net = Network("small", 16, 1, classes=10)
    x = net.conv(net.conv("images", 8, 3, 2, act="Silu"), 8, norm=False)
    return net.write(path / "small.onnx", net.dense(net.flat(net.mean(x)), 10))


def outputs(path: Path) -> list[Any]:
    network, imported = import_onnx(path)
    image = np.random.default_rng(0).normal(0, 1, network.input_shape).astype(np.float32)
    return list(run(imported, image).values())


def test_the_network_is_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = written(tmp_path)
    whole = outputs(path)
    request.getfixturevalue("everything_is_large")
    skeleton = skeleton_of(path)
    assert skeleton is not None
    assert len(skeleton.places) == 3
    assert len(skeleton.data) + sum(end - start for start, end in skeleton.places.values()) > path.stat().st_size - 99
    for found, wanted in zip(outputs(path), whole, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert largest_difference(path) < 1e-5


@pytest.mark.usefixtures("everything_is_large")
def test_layers_without_a_result_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path)
    wanted = outputs(path)
    proto = onnx.load(path)
    for node in [each for each in proto.graph.node if each.op_type in ("Conv", "Gemm")]:
        proto.graph.node.append(onnx.helper.make_node(node.op_type, node.input, []))
    proto.graph.node.append(onnx.helper.make_node("ConstantOfShape", [proto.graph.initializer[0].name], []))
    onnx.save(proto, path)
    np.testing.assert_array_equal(outputs(path), wanted)


@pytest.mark.usefixtures("everything_is_large")
def test_damaged_files_are_left_to_the_parser(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = path.read_bytes()
    for length in (1, 17, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        assert skeleton_of(path) is None
        with pytest.raises(ImportedFileError, match=r"small\.onnx: "):
            import_onnx(path)


@pytest.mark.usefixtures("everything_is_large")
def test_two_weights_of_one_name_are_left_to_the_parser(tmp_path: Path) -> None:
    proto = onnx.load(written(tmp_path))
    largest = max(proto.graph.initializer, key=lambda each: len(each.raw_data))
    proto.graph.initializer.append(largest)
    onnx.save(proto, tmp_path / "twice.onnx")
    assert skeleton_of(tmp_path / "twice.onnx") is None


@pytest.mark.usefixtures("everything_is_large")
def test_constants_of_one_number_take_no_memory(tmp_path: Path) -> None:
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    half = helper.make_tensor("v", floats, [1], [0.5])
    nodes = [
        helper.make_node("ConstantOfShape", ["sides"], ["w"], value=half),
        helper.make_node("Conv", ["x", "w"], ["y"]),
    ]
    sides = onnx.numpy_helper.from_array(np.array([8, 3, 2, 2]), "sides")
    ends = [helper.make_tensor_value_info(*each) for each in (("x", floats, [1, 3, 6, 6]), ("y", floats, [1, 8, 5, 5]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [sides])
    path = tmp_path / "made.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    network, _ = import_onnx(path)
    assert network.constants["w"].strides == (0, 0, 0, 0)
    assert largest_difference(path) < 1e-6


@pytest.mark.gate("imports a file of 100 MB")
def test_an_import_takes_at_most_three_times_the_file(tmp_path: Path) -> None:
    small, large = (_peak(_dense(tmp_path / f"{side}.onnx", side)) for side in (8, 74))
    size = (tmp_path / "74.onnx").stat().st_size
    assert size > onnx_weights.LEAST_FILE
    assert large - small <= 3 * size


def _dense(path: Path, side: int) -> Path:
    """A dense layer of side * side * 3 by 1,500 numbers."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    rows = np.random.default_rng(0).normal(0, 0.01, (1500, 3 * side * side)).astype(np.float32)
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)]
    ends = [helper.make_tensor_value_info(n, floats, s) for n, s in (("x", [1, 3, side, side]), ("y", [1, 1500]))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(rows, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""In a small process of its own: a child's greatest memory counts that of the process from which it was forked."""


def _peak(path: Path) -> int:
    """Greatest memory of `edgemeta import` and its children, bytes."""
    command = [Path(sys.executable).with_name("edgemeta"), "import", path, "--out", path.with_suffix(".safetensors")]
    done = subprocess.run([sys.executable, "-c", PEAK, *command], stdout=subprocess.PIPE, check=True)
    return int(done.stdout) * 1024
