"""Every engine in Icarus by cocotb: back-pressure, resets in mid-frame, extremes; each word equals the reference's."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.engines import Folding
from edgemeta.kernels.fpga.generate.network import plan_network
from edgemeta.kernels.fpga.generate.verilog import memory_files, network_source, rtl_sources
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def conv(
    shape: tuple[int, int, int],
    channels: int,
    kernel: int,
    stride: int,
    folds: int,
    form: str = "tables",
    bits: int = 5,
    kind: dict[str, int] | None = None,
    padding: tuple[int, int, int, int] | None = None,
    fixed: int = 0,
) -> tuple[Model, dict[str, Folding]]:
    net = PowerOfTwoBuilder(TensorType(shape, **(kind or {})), 7, form, bits)  # type: ignore[arg-type]
    net.conv("layer", INPUT, channels, kernel, stride, padding, fixed=fixed)
    return net.model("layer"), {"layer": Folding(folds)}


def dense(form: str, fixed: int, raw: bool) -> tuple[Model, dict[str, Folding]]:
    net = PowerOfTwoBuilder(TensorType((2, 2, 3)), 5, form)  # type: ignore[arg-type]
    return net.model(net.dense("layer", INPUT, 5, fixed, raw=raw)), {"layer": Folding(6)}


def pool(form: str) -> tuple[Model, dict[str, Folding]]:
    net = PowerOfTwoBuilder(TensorType((4, 4, 3), signed=False, zero_point=9), 5, form)  # type: ignore[arg-type]
    return net.model(net.pool("layer", INPUT)), {}


def residual() -> tuple[Model, dict[str, Folding]]:
    net = PowerOfTwoBuilder(TensorType((5, 4, 3)), 5)
    x = net.conv("first", INPUT, 3)
    y = net.clamp("relu", net.add("sum", net.conv("second", x, 3), x, (1, 0), 2, -128), -3, 90)
    return net.model(y), {}


def clamped() -> tuple[Model, dict[str, Folding]]:
    net = PowerOfTwoBuilder(TensorType((3, 3, 2)), 5)
    return net.model(net.clamp("clamp", INPUT, -5, 100)), {}


CASES: dict[str, Callable[[], tuple[Model, dict[str, Folding]]]] = {
    "3x3": lambda: conv((5, 6, 4), 3, 3, 1, 1),
    "3x3-folded": lambda: conv((5, 6, 6), 3, 3, 1, 3),
    "3x3-stride-2": lambda: conv((6, 7, 4), 3, 3, 2, 2),
    "3x3-stride-2-bottom": lambda: conv((6, 6, 2), 3, 3, 2, 1, padding=(0, 0, 1, 1)),
    "3x3-no-padding": lambda: conv((5, 5, 2), 2, 3, 1, 1, padding=(0, 0, 0, 0)),
    "1x1": lambda: conv((4, 3, 4), 5, 1, 1, 2, "table"),
    "1x1-stride-2": lambda: conv((5, 6, 4), 3, 1, 2, 1),
    "3-bits": lambda: conv((4, 4, 3), 4, 3, 1, 1, "clamp", 3),
    "2-bits-zero-point": lambda: conv((4, 4, 3), 4, 3, 1, 1, "clamps", 2, {"zero_point": -128}),
    "unsigned-zero-point": lambda: conv((4, 4, 3), 4, 3, 1, 3, "tables", 4, {"signed": False, "zero_point": 113}),
    "fixed-8-bits": lambda: conv((4, 4, 2), 3, 3, 1, 1, "tables", fixed=8),
    "dense": lambda: dense("tables", 0, True),
    "dense-fixed": lambda: dense("table", 8, False),
    "pool-tables": lambda: pool("tables"),
    "pool-clamp": lambda: pool("clamp"),
    "add": residual,
    "clamp": clamped,
}


@pytest.mark.gate("30 s: every engine is compiled and simulated by Icarus")
@pytest.mark.parametrize("name", CASES)
def test_engine(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed (Debian package iverilog)")
    runner_of = pytest.importorskip("cocotb_tools.runner", reason="no cocotb (extra `test`)").get_runner
    model, foldings = CASES[name]()
    network = plan_network(model, foldings)
    for file, text in {**rtl_sources(), "network.sv": network_source(network, str(tmp_path))}.items():
        (tmp_path / file).write_text(text)
    for file, text in memory_files(network).items():
        (tmp_path / file).write_text(text)
    kind = model.input
    rng = np.random.default_rng(2)
    images = rng.integers(kind.lo, kind.hi + 1, (4, *kind.shape)).astype(kind.dtype)
    images[1], images[2] = kind.lo, kind.hi
    expected = reference.run(model, images)[0]
    bench = tmp_path / "bench.npz"
    words = images.view(np.uint8).ravel()
    np.savez(bench, words=words, expected=expected.astype(np.int64).ravel(), image=words.size // 4)
    monkeypatch.setenv("EDGEMETA_BENCH", str(bench))
    runner = runner_of("icarus")
    runner.build(
        sources=sorted(tmp_path.glob("*.sv")), hdl_toplevel="edgemeta_network", build_dir=tmp_path / "build",
        build_args=["-g2012"], log_file=tmp_path / "build.log",
    )  # fmt: skip
    try:
        results = runner.test(
            hdl_toplevel="edgemeta_network",
            test_module="tests.kernels.fpga.stream_bench",
            test_dir=tmp_path,
            build_dir=tmp_path / "build",
            log_file=tmp_path / "test.log",
            results_xml=str(tmp_path / "results.xml"),
        )
    except SystemExit:
        pytest.fail((tmp_path / "test.log").read_text()[-3000:])
    assert Path(results).read_text().count("<testcase") == 3
