"""Every engine in Icarus by cocotb: back-pressure, resets in mid-frame, extremes; each word equals the reference's."""

import shutil
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.lines import LINE, with_lines
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
    zero: int = 0,
) -> tuple[Model, dict[str, int]]:
    net = PowerOfTwoBuilder(TensorType(shape, **(kind or {})), 7, form, bits)  # type: ignore[arg-type]
    net.conv("layer", INPUT, channels, kernel, stride, padding, TensorType((1, 1, 1), zero_point=zero), fixed)
    return net.model("layer"), {"layer": folds}


def dense(form: str, fixed: int, raw: bool, folds: int = 6) -> tuple[Model, dict[str, int]]:
    net = PowerOfTwoBuilder(TensorType((2, 2, 3)), 5, form)  # type: ignore[arg-type]
    return net.model(net.dense("layer", INPUT, 5, fixed, raw=raw)), {"layer": folds}


def pool(form: str) -> tuple[Model, dict[str, int]]:
    net = PowerOfTwoBuilder(TensorType((4, 4, 3), signed=False, zero_point=9), 5, form)  # type: ignore[arg-type]
    return net.model(net.pool("layer", INPUT)), {}


def residual() -> tuple[Model, dict[str, int]]:
    net = PowerOfTwoBuilder(TensorType((5, 4, 3)), 5)
    x = net.conv("first", INPUT, 3)
    y = net.clamp("relu", net.add("sum", net.conv("second", x, 3), x, (1, 0), 2, -128), -3, 90)
    return net.model(y), {}


def clamped() -> tuple[Model, dict[str, int]]:
    net = PowerOfTwoBuilder(TensorType((3, 3, 2)), 5)
    return net.model(net.clamp("clamp", INPUT, -5, 100)), {}


CASES: dict[str, Callable[[], tuple[Model, dict[str, int]]]] = {
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
    **{
        f"{1 + few}-bit-{'signed' if signed else 'unsigned'}-{name}": partial(
            conv,
            (4, 4, 3),
            4,
            3,
            1,
            1,
            "tables",
            bits,
            {"bits": 1 + few, "signed": signed, "zero_point": 0},
            fixed=fixed,
        )
        for few, signed in product(range(2), (False, True))
        for name, bits, fixed in (("power-of-two2", 2, 0), ("power-of-two5", 5, 0), ("fixed1", 5, 1), ("fixed2", 5, 2))
    },
    "lut-ram": lambda: conv((5, 6, 8), 3, 3, 1, 8),
    "lut-ram-stride-2": lambda: conv((6, 7, 16), 2, 3, 2, 8, kind={"zero_point": 5}),
    "lut-ram-no-padding": lambda: conv((4, 4, 12), 2, 3, 1, 12, padding=(0, 0, 0, 0)),
    "lut-ram-fixed": lambda: conv((4, 4, 8), 2, 3, 1, 8, fixed=8),
    "lut-ram-1x1": lambda: conv((3, 4, 8), 3, 1, 1, 8, "table"),
    "lut-ram-1x1-stride-2": lambda: conv((5, 5, 10), 3, 1, 2, 10, "clamp"),
    "lut-ram-one-column": lambda: conv((5, 1, 8), 2, 3, 1, 8),
    "lut-ram-dense": lambda: dense("tables", 0, True, 12),
    "lines": lambda: conv((4, 4, 3), 5, 3, 1, 1, "lines", zero=-100),
    "lines-lut-ram-unsigned": lambda: conv((4, 4, 8), 5, 3, 2, 8, "lines", kind={"signed": False, "zero_point": 7}),
    "lines-pool": lambda: pool("lines"),
    "dense": lambda: dense("tables", 0, True),
    "dense-fixed": lambda: dense("table", 8, False),
    "pool-tables": lambda: pool("tables"),
    "pool-clamp": lambda: pool("clamp"),
    "add": residual,
    "clamp": clamped,
}


def some_images(model: Model) -> NDArray[Any]:
    """Random ones, the lowest and the highest."""
    kind = model.input
    images = np.random.default_rng(2).integers(kind.lo, kind.hi + 1, (4, *kind.shape)).astype(kind.dtype)
    images[1], images[2] = kind.lo, kind.hi
    return images


def simulate(folder: Path, top: str, words: NDArray[Any], expected: NDArray[Any], bench: str = "stream_bench") -> None:
    """Run a bench of this folder on the sources in `folder`. words: of 4 images."""
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus is not installed (Debian package iverilog)")
    runner_of = pytest.importorskip("cocotb_tools.runner", reason="no cocotb (extra `test`)").get_runner
    image, result = words.size // 4, expected.size // 4
    np.savez(folder / "bench.npz", words=words, expected=expected, image=image, result=result)
    runner, build = runner_of("icarus"), folder / "build"
    sources = sorted(folder.glob("*.sv"))
    runner.build(
        sources=sources, hdl_toplevel=top, build_dir=build, build_args=["-g2012"], log_file=folder / "build.log"
    )
    try:
        results = runner.test(
            hdl_toplevel=top,
            test_module=f"tests.kernels.fpga.{bench}",
            test_dir=folder,
            build_dir=build,
            log_file=folder / "test.log",
            results_xml=str(folder / "results.xml"),
            extra_env={"EDGEMETA_BENCH": str(folder / "bench.npz")},
        )
    except SystemExit:
        pytest.fail((folder / "test.log").read_text()[-3000:])
    assert Path(results).read_text().count("<testcase") == 3


@pytest.mark.gate("30 s: every engine is compiled and simulated by Icarus")
@pytest.mark.parametrize("name", CASES)
def test_engine(name: str, tmp_path: Path) -> None:
    model, foldings = CASES[name]()
    network = plan_network(model, foldings)
    if name.startswith("lines"):
        network = with_lines(network)
        assert network.engines[0].parameters["MODE"] == LINE
    sources = {**rtl_sources(), "network.sv": network_source(network, str(tmp_path)), **memory_files(network)}
    for file, text in sources.items():
        (tmp_path / file).write_text(text)
    images = some_images(model)
    expected = reference.run(model, images)[0]
    simulate(tmp_path, "edgemeta_network", images.view(np.uint8).ravel(), expected.astype(np.int64).ravel())
