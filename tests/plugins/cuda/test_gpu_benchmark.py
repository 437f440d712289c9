"""The GPU benchmark on the emulated driver: it measures small real figures and reports every failure."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import measure
from benchmarks.gpu.effort import Effort
from benchmarks.gpu.opened import opened, random_batch
from benchmarks.gpu.our_networks import float32_rows
from benchmarks.gpu.tables import convolution_table, markdown, network_table
from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import Kernel
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta_proof.baselines.paper import launch as paper

ONCE = Effort(0, 1)
JUNIT = """<testsuites><testsuite>
<testcase name="test_every_bit"/>
<testcase name="test_leaks"><failure message="assert 3 == 0&#10;more">text</failure></testcase>
<testcase name="test_sanitizer"><skipped message="compute-sanitizer is not installed"/></testcase>
<testcase name="test_of_few_words"><error message="">text</error></testcase>
</testsuite></testsuites>"""


def test_the_float_rows_are_measured(device: DeviceContext, cubins: Cubins) -> None:
    rows = float32_rows(load_float_model(find("resnet8-cifar10-float")), device, cubins, (1, 2), ONCE)
    assert [(row["runtime"], row["type"], row["batch"]) for row in rows] == [
        ("edgemeta", "float32", 1),
        ("edgemeta", "float32", 2),
    ]
    assert all(row["device_us"] > 0 and row["host_us"] > 0 for row in rows)
    table = network_table([*rows, {"runtime": "other", "type": "int8", "batch": 2, "failed": "why"}], "device_us")
    assert table.splitlines()[0] == "| runtime | type | 1 | 2 |"
    assert table.splitlines()[2] == f"| edgemeta | float32 | {rows[0]['device_us']:.1f} | {rows[1]['device_us']:.1f} |"
    assert table.splitlines()[3] == "| other | int8 | – | – |"


@pytest.mark.gate("2 s each: a network, emulated")
@pytest.mark.parametrize(
    "kernels", [paper.KERNELS, paper.BASELINE, paper.AS_PRINTED], ids=["winograd", "tiled", "printed"]
)
def test_the_paper_s_designs_are_exact_on_the_device(
    device: DeviceContext, cubins: Cubins, kernels: tuple[Kernel, ...]
) -> None:
    model = load(find("resnet8-cifar10"))
    plan = lower(model, device.architecture, kernels=kernels)
    with opened(plan, device.number, cubins) as program:
        image, outputs = random_batch(plan, 1), program.new_outputs(1)
        program.run(image, outputs)
    np.testing.assert_array_equal(outputs[0], reference.run(model, image)[0])


class Refuses:
    """A compiler that makes nothing."""

    version = "refuses 1.0"

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        raise CompilerError(f"nothing is made of {source.path} here")


@pytest.mark.gate("3 s of processor time: most of a benchmark, emulated")
def test_every_part_survives_the_failure_of_the_others(
    device: DeviceContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEMETA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "tests.xml").write_text(JUNIT)
    words = ["--batches", "1", "--warm-ups", "0", "--runs", "1", "--tests", str(tmp_path / "tests.xml")]
    seen = [dict(record["failed"]) for record in measure.measure(device, Refuses(), measure.parse(words))]
    assert seen[0]["PyTorch"] == "not measured: the run ended earlier"
    *_, record = measure.measure(device, Refuses(), measure.parse(words))
    assert record["failed"].keys() == {"table 1", "our int8", "our float32", "PyTorch"}
    assert record["absent"] == {"TensorRT": "tensorrt is not installed"}
    assert record["failed"]["our float32"] == "CompilerError: nothing is made of baselines/float32/kernel.cu here"
    assert (record["tests"]["passed"], record["tests"]["failed"], record["tests"]["skipped"]) == (1, 2, 1)
    text = markdown(record)
    assert "1 passed, 2 failed, 1 skipped." in text
    assert "- test_leaks: failure: assert 3 == 0" in text
    assert "- our float32: CompilerError: nothing is made of baselines/float32/kernel.cu here" in text
    write_json("gpu", "benchmarks/gpu/run.sh", record, tmp_path)
    write_markdown("gpu", "benchmarks/gpu/run.sh", text, tmp_path)
    assert json.loads((tmp_path / "gpu.json").read_text())["device"]["architecture"] == "sm_53"
    assert (tmp_path / "gpu.md").read_text().startswith("`benchmarks/gpu/run.sh`, ")


def test_table_1_compares_kernels_within_a_layer() -> None:
    rows = [
        {"layer": "conv1", "size": "32x32x16", "kernel": "winograd", "tile": {"tile": 4}, "device_us": 2.0},
        {"layer": "conv1", "size": "32x32x16", "kernel": "direct", "tile": {"x": 2, "y": 4}, "device_us": 3.0},
        {"layer": "conv5", "size": "16x16x32", "kernel": "direct", "tile": {}, "device_us": 4.0},
    ]
    assert convolution_table(rows).splitlines()[2:] == [
        "| conv1 | 32x32x16 | winograd | tile 4 | 2.00 | 1.00 |",
        "| conv1 | 32x32x16 | direct | x 2, y 4 | 3.00 | 1.50 |",
        "| conv5 | 16x16x32 | direct |  | 4.00 | 1.00 |",
    ]


def test_without_the_tests_file_the_report_says_so() -> None:
    assert measure.tests_of([]) == {"failed_to_run": "no JUnit file"}
    assert measure.tests_of([Path("absent.xml")]) == {"failed_to_run": "no JUnit file absent.xml"}
