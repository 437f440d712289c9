"""The cost report of the shipped network: its properties, and its counts compared with the launches."""

import re
from dataclasses import replace
from typing import Any

import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.toolchain.reject.evidence import without_rejection
from edgemeta_proof.baselines.paper.launch import BASELINE
from edgemeta_proof.machine_code.cost import Cost, cost
from edgemeta_proof.machine_code.devices import DEVICES
from edgemeta_proof.machine_code.sass import SassError
from edgemeta_proof.report import CostReport, cost_report

pytestmark = [
    pytest.mark.usefixtures("compiler", "disassembler"),
    pytest.mark.gate("20 s: the machine code of a network in both designs; a small one: tests/cli/test_kernels.py"),
]

NANO = ARCHITECTURES["sm_53"]


@pytest.fixture(scope="module")
def model() -> Model:
    """Without its rule of rejection, which the paper's network does not have: three small launches more."""
    return without_rejection(load(find("resnet8-cifar10")))


@pytest.fixture(scope="module")
def made(model: Model) -> CostReport:
    return cost_report(model, NANO)


def some(plan: LaunchPlan, *layers: str) -> LaunchPlan:
    """The launches that begin with these layers."""
    launches = tuple(launch for launch in plan.launches if launch.layers[0] in layers)
    return LaunchPlan(plan.architecture, launches, plan.input, plan.outputs)


@pytest.fixture(scope="module")
def tiled(model: Model, compiler: Compiler) -> Cost:
    """The simple convolutions of table 1."""
    return cost(some(lower(model, NANO, kernels=BASELINE), "conv1", "conv5", "conv8"), model, compiler)


def test_our_design_issues_at_most_a_third_of_the_paper_s(made: CostReport) -> None:
    assert made.own.warp_instructions * 3 <= made.paper_design.warp_instructions


def test_every_convolution_is_one_launch_with_its_fused_layers(made: CostReport, model: Model) -> None:
    convolutions = [layer.name for layer in model.layers if type(layer).__name__ == "Conv"]
    done = [name for each in made.own.launches for name in each.launch.layers]
    assert sorted(done) == sorted(layer.name for layer in model.layers)
    assert len(made.own.launches) <= len(convolutions)


@pytest.mark.gate("20 s of processor time: both designs are simulated")
def test_json_holds_the_promised_keys_and_they_add_up(made: CostReport) -> None:
    values = made.as_json()
    assert values["arch"] == "sm_53"
    paper = values["paper_design"]
    assert isinstance(paper, dict)
    for side in (values, paper):
        rows: Any = side["layers"]
        assert side["launches"] == len(rows)
        assert side["warp_instructions"] == sum(row["warp_instructions"] for row in rows)
        predicted: Any = side["predicted_us"]
        assert predicted["busy"] == pytest.approx(sum(row["busy_us"] for row in rows), abs=0.5)
        between = (len(rows) - 1) * DEVICES["sm_53"].node_us
        assert predicted["graph"] == pytest.approx(predicted["busy"] + DEVICES["sm_53"].launch_us + between, abs=0.2)
        assert predicted["busy"] < predicted["graph"] < predicted["plain"]
        assert sum(row["macs"] for row in rows) == 12_501_632
        assert all(0 < row["shares"]["xmad"] < 1 and row["shares"]["idp"] == 0 for row in rows)


@pytest.mark.gate("20 s of processor time: both designs are simulated")
def test_the_text_has_both_designs_and_the_assumptions(made: CostReport) -> None:
    text = "\n".join(made.lines())
    assert "the paper's design" in text
    assert "predicted us, not measured" in text
    assert "921.6 MHz" in text
    assert text.count("Guess: ") == 1
    for way, name in (("busy", "busy, no launches"), ("plain", "launched one by one"), ("graph", "as a CUDA graph")):
        ours, paper = made.own.predicted_us[way], made.paper_design.predicted_us[way]
        assert re.search(rf"\n  {name} +{ours:.1f} +{paper:.1f}\n", text)
    assert re.search(
        rf"\n  8 launches +{made.own.warp_instructions:,} \d\d\.\d% +[\d,.]+ +{made.own.predicted_us['busy']:.1f}\n",
        text,
    )
    assert re.search(r"\n  conv2\+add2 +winograd +\d+ +\d+ +[\d,]+ +\d\d\.\d% +[\d,.]+ +[\d.]+\n", text)


def renamed(total: Cost, ending: str) -> Cost:
    """The same cost of layers with longer names."""
    return Cost(
        tuple(
            replace(each, launch=replace(each.launch, layers=tuple(name + ending for name in each.launch.layers)))
            for each in total.launches
        ),
        total.device,
    )


@pytest.mark.gate("20 s of processor time: both designs are simulated")
@pytest.mark.parametrize("ending", ["", "_of_a_block", "/of/a/name/as/converters/like/to/make/them"])
def test_text_fits_80_columns_whatever_the_layers_names(made: CostReport, ending: str) -> None:
    lines = list(replace(made, own=renamed(made.own, ending)).lines())
    names = ["+".join(name + ending for name in each.launch.layers) for each in made.own.launches]
    assert max(len(line) for line in lines if line.strip() not in names) <= 80
    assert all(any(name in line for line in lines) for name in names)


def test_products_of_direct_convolutions_are_the_layers_multiply_accumulates(made: CostReport, tiled: Cost) -> None:
    direct = [each for total in (made.own, made.paper_design, tiled) for each in total.launches if _is_direct(each)]
    assert len(direct) >= 5
    for each in direct:
        products = each.run.lanes["XMAD"]
        assert each.macs <= products <= 1.35 * each.macs, each.launch.layers


def _is_direct(each: Any) -> bool:
    # conv0's three channels are padded, so it multiplies more.
    return each.launch.source.path in (
        "direct/kernel.cu",
        "baselines/paper/map.cu",
        "baselines/paper/tiled.cu",
    ) and each.launch.layers != ("conv0",)


def test_products_of_winograd_are_fewer_than_the_layers_multiply_accumulates(made: CostReport) -> None:
    winograd = [each for each in made.paper_design.launches if each.launch.source.path == "baselines/paper/winograd.cu"]
    assert len(winograd) == 5
    for each in winograd:
        if each.launch.layers != ("conv0",):
            assert each.macs * 4 / 9 <= each.run.lanes["XMAD"] < each.macs


def test_bytes_written_are_the_output_tensors(made: CostReport, model: Model) -> None:
    sizes = {layer.name: layer.output.shape for layer in model.layers}
    for each in (*made.own.launches[:-1], *made.paper_design.launches[:-1]):
        shapes = [sizes[name] for name in each.launch.layers if name in _written(each)]
        assert each.run.written_bytes == sum(h * w * c for h, w, c in shapes), each.launch.layers


def _written(each: Any) -> set[str]:
    buffers = [argument.name for argument in each.launch.arguments if isinstance(argument, Buffer)]
    return {name for name in buffers if name in each.launch.layers}


def test_undeclared_loops_stop_the_report(model: Model, compiler: Compiler) -> None:
    plan = some(lower(model, NANO, kernels=BASELINE), "conv8")
    (launch,) = plan.launches
    wrong = replace(plan, launches=(replace(launch, loops=(*launch.loops, 5)),))
    reason = r"the loops in the machine code of baselines/paper/\w+\.cu have the trip counts .*, the launch declares"
    with pytest.raises(SassError, match=reason):
        cost(wrong, model, compiler)


def test_no_time_is_predicted_without_a_device_description(model: Model, compiler: Compiler) -> None:
    xavier = ARCHITECTURES["sm_72"]
    total = cost(some(lower(model, xavier), "conv0", "conv8"), model, compiler)
    assert total.predicted_us == total.as_json()["predicted_us"] == {}
    assert total.share("IDP") > 0.05
    lines = list(CostReport(model.name, xavier, str(compiler), total, total).lines())
    assert lines.count("  layers     kernel blocks threads warp-insn   IDP moved kB") == 2
    assert lines[-1] == "no predicted time for sm_72: only sm_53, sm_62, sm_87, sm_90 are described"
