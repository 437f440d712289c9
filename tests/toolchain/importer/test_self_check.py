"""The comparison after an import: near for a right network, far for a wrong one, nothing where nothing can be run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.topologies import write_topology
from edgemeta.model.layers import Conv
from edgemeta.toolchain.importer import runtimes
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.importer.self_check import difference
from tests.toolchain.importer.test_operators import Nodes


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return write_topology("squeezenet", tmp_path, 64)


def test_a_right_network_is_near_and_a_wrong_one_far(network: Path) -> None:
    graph, imported = import_onnx(network)
    off = difference(network, graph, imported, Pixels(mean=(128.0,), deviation=(64.0,)))
    assert off is not None
    assert 0 < off < 1e-4
    first, *others = imported.layers
    assert isinstance(first, Conv)
    wrong = replace(imported, layers=(replace(first, weights=np.flip(first.weights, 1).copy()), *others))
    far = difference(network, graph, wrong, Pixels(mean=(128.0,), deviation=(64.0,)))
    assert far is not None
    assert far > 0.01


@pytest.mark.filterwarnings("ignore:overflow|divide:RuntimeWarning")
def test_numbers_beyond_all_bounds_are_compared(tmp_path: Path) -> None:
    def written(times: float) -> Path:
        net = Nodes()
        net("Mul", net("Mul", net("GlobalAveragePool", "x"), np.array(1e30, np.float32)), np.array(times, np.float32))
        return net.write(tmp_path / f"{times:g}.onnx", shape=(1, 3, 8, 8))

    path = written(1e30)
    graph, imported = import_onnx(path)
    assert difference(path, graph, imported, Pixels()) == 0
    assert difference(path, graph, import_onnx(written(1))[1], Pixels()) == 1e9


def test_without_the_runtime_nothing_is_compared(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ImportError("onnxruntime")

    monkeypatch.setattr(runtimes, "_OnnxRuntime", missing)
    graph, imported = import_onnx(network)
    assert difference(network, graph, imported, Pixels()) is None


def test_a_file_that_the_runtime_refuses_is_not_compared(network: Path) -> None:
    graph, imported = import_onnx(network)
    network.write_bytes(network.read_bytes()[:2000])
    assert difference(network, graph, imported, Pixels()) is None
