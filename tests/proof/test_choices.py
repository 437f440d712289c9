"""Reports say of every layer with bit planes what the rule takes, and the estimates by which it does."""

import pytest

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta_proof.choices import choices_of
from edgemeta_proof.report import cost_report
from tests.conformance.networks import NetworkBuilder
from tests.emulation.witnesses import BY_NAME

NONE = (0, 0, 0, 0)


def network() -> Model:
    """A layer of one pair of planes, one of six, one of weights of 8 bits, and a dense layer of bases."""
    bit = TensorType((1, 1, 1), bits=1, signed=False)
    net = NetworkBuilder("planes", TensorType((8, 8, 3)))
    first = net.conv(net.start, 128, (1, 1), padding=NONE, output=bit)
    pair = net.conv(first, 128, (1, 1), padding=NONE, output=bit, weights=lambda shape: net.fixed(shape, 1))
    net.dense(pair, 10, weights=lambda shape: net.binary(shape, 6))
    return net.finish().model


@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_choices_are_those_of_the_plan(architecture: str) -> None:
    model = network()
    plan = lower(model, ARCHITECTURES[architecture])
    taken = {launch.layers for launch in plan.launches if launch.source.path == "popc/kernel.cu"}
    found = list(choices_of(model, ARCHITECTURES[architecture]))
    assert [each.layers for each in found] == [("conv1",), ("dense2",)]
    assert {each.layers for each in found if each.is_taken} == taken
    assert (("conv1",) in taken) == (architecture == "sm_53"), "sm_87 has tensor cores"
    assert all(each.popc_us > 0 and each.others_us for each in found)


def test_layers_without_an_estimate_are_never_taken() -> None:
    (wide,) = (
        each for each in choices_of(BY_NAME["binary8-wide"].model, ARCHITECTURES["sm_53"]) if each.layers != ("spread",)
    )
    assert wide.others_us is None
    assert not wide.is_taken
    assert "other kernels no estimate: popcount is not taken" in wide.description


def test_a_device_without_a_description_has_none() -> None:
    assert not list(choices_of(network(), ARCHITECTURES["sm_61"]))


@pytest.mark.gate("3 s: kernels are compiled")
@pytest.mark.usefixtures("disassembler")
def test_the_report_names_kernel_and_choice() -> None:
    report = cost_report(network(), ARCHITECTURES["sm_53"])
    text = "\n".join(report.lines())
    assert "popc" in next(line for line in text.splitlines() if line.startswith("  conv1 "))
    assert "layers with bit planes, estimated by tile:" in text
    assert "popcount is taken." in text
    record = report.as_json()
    assert [each["layers"] for each in record["popcount"]] == [["conv1"], ["dense2"]]
    assert record["layers"][1]["kernel"] == "popc/kernel.cu"
    assert record["layers"][1]["shares"]["popc"] > 0.05
