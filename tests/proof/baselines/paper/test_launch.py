"""The paper's design is exact, too: every kernel of it on the CPU, bit-equal to the reference, races looked for."""

import numpy as np
import pytest

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Kernel
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.zoo import find
from edgemeta.toolchain.quantize.run import needed
from edgemeta_proof.baselines.paper.launch import AS_PRINTED, BASELINE, BASELINE_AS_PRINTED, KERNELS
from tests.conformance.cases import CASES
from tests.conformance.networks import Case, NetworkBuilder
from tests.emulation.executor import Emulator, Order
from tests.parts import by_name, in_parts

NANO = ARCHITECTURES["sm_53"]
SETS = {"winograd": KERNELS, "tiled": BASELINE}
PRINTED = {"winograd": AS_PRINTED, "tiled": BASELINE_AS_PRINTED}
UNSIGNED = TensorType((1, 1, 1), signed=False, zero_point=7)


def odd_shapes() -> Case:
    """Odd sizes, channels that no group divides, a zero point in the ring, both forms of requantization."""
    network = NetworkBuilder("paper-odd", TensorType((7, 5, 3), zero_point=-9))
    first = network.conv(network.start, 9, form="table", output=UNSIGNED)
    second = network.conv(first, 21, padding=(0, 1, 1, 0))
    return network.observe(network.conv(second, 9, form="table"))


def wide() -> Case:
    """More channels than a group has lanes, and an addition behind the second convolution."""
    network = NetworkBuilder("paper-wide", TensorType((4, 6, 3)))
    first = network.conv(network.start, 40)
    second = network.conv(first, 40)
    return network.observe(network.add(second, first, multipliers=(3, 2), shift=2, relu=True))


def strided() -> Case:
    """A block of a residual network: 3x3 with stride 2, the 1x1 shortcut beside it; 5x5; raw sums at the end."""
    network = NetworkBuilder("paper-strided", TensorType((9, 8, 3)))
    first = network.conv(network.start, 12, (5, 5), (1, 1), (2, 2, 2, 2), form="table")
    shortcut = network.conv(first, 20, (1, 1), (2, 2), (0, 0, 0, 0), form="table")
    main = network.conv(first, 20, stride=(2, 2), output=UNSIGNED)
    second = network.conv(main, 20)
    added = network.add(second, shortcut, multipliers=(1, 1), shift=0)
    network.conv(added, 6, (5, 4), (1, 1), (0, 0, 0, 0), form=None)
    return network.finish()


def at_the_image() -> Case:
    """The same for the image, which has no ring: padding while loading, none for the shortcut."""
    network = NetworkBuilder("paper-image", TensorType((9, 7, 3), zero_point=5))
    shortcut = network.conv(network.start, 8, (1, 1), (2, 2), (0, 0, 0, 0))
    main = network.conv(network.start, 8, stride=(2, 2), output=UNSIGNED)
    second = network.conv(main, 8)
    return network.observe(network.add(second, shortcut, multipliers=(1, 1), shift=0))


def wide_weights() -> Case:
    """Weights of power of two up to 128 and of three binary bases do not fit a byte."""
    network = NetworkBuilder("paper-weights", TensorType((6, 6, 3)))
    first = network.conv(network.start, 8, weights=lambda shape: network.binary(shape, 3))
    return network.observe(network.conv(first, 8, stride=(2, 2), weights=lambda shape: network.binary(shape, 3)))


SMALL = {make.__name__: make() for make in (odd_shapes, wide, strided, at_the_image, wide_weights)}


def assert_equal(model: Model, kernels: tuple[Kernel, ...], batch: object, order: Order, mode: str) -> None:
    plan = lower(model, NANO, kernels=kernels)
    found = Emulator(plan, order=order, mode=mode).run(np.asarray(batch))[0]
    np.testing.assert_array_equal(found, reference.run(model, np.asarray(batch))[0])


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("odd_shapes", "winograd"),
        ("strided", "tiled"),
        *(
            pytest.param(name, kernels, marks=pytest.mark.gate("3 s each: a baseline, with every access checked"))
            for name in SMALL
            for kernels in SETS
            if (name, kernels) not in {("odd_shapes", "winograd"), ("strided", "tiled")}
        ),
    ],
)
def test_a_network_equals_the_reference(name: str, kernels: str) -> None:
    case = SMALL[name]
    for order, (_, batch) in zip(("reverse", 3, "forward", 5, 7), case.batches(), strict=True):
        assert_equal(case.model, SETS[kernels], batch, order, "checked")


@pytest.mark.gate("3 s each: a baseline, with every access checked")
@pytest.mark.parametrize("kernels", PRINTED)
def test_algorithm_1_in_one_group_of_all_filters_equals_the_reference(kernels: str) -> None:
    case = wide()
    launches = lower(case.model, NANO, kernels=PRINTED[kernels]).launches
    assert 64 in [dict(launch.source.defines).get("LANES") for launch in launches]
    for order, (_, batch) in zip(("reverse", 3, "forward", 5, 7), case.batches(), strict=True):
        assert_equal(case.model, PRINTED[kernels], batch, order, "checked")


@pytest.mark.parametrize("kernels", SETS)
def test_the_small_networks_use_every_kernel(kernels: str) -> None:
    paths = {
        launch.source.path
        for case in SMALL.values()
        for launch in lower(case.model, NANO, kernels=SETS[kernels]).launches
    }
    assert {f"baselines/paper/{kernels}.cu", "baselines/paper/map.cu"} <= paths


@pytest.mark.gate("3 s each: a network, emulated")
@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper"])
def test_the_shipped_networks_equal_the_reference(name: str) -> None:
    model = load(find(name))
    batch = np.random.default_rng(8).integers(-128, 128, (3, 32, 32, 3)).astype(np.int8)
    assert_equal(model, KERNELS, batch, 11, "quick")


def test_the_paper_s_network_is_launched_as_in_its_figure_7() -> None:
    shipped = load(find("resnet8-cifar10-paper"))
    plan = lower(needed(shipped, shipped.outputs[:1]), NANO, kernels=KERNELS)  # without the rule of rejection
    assert [launch.layers for launch in plan.launches] == [
        ("conv0",),
        ("conv1",),
        ("conv2", "add2"),
        ("conv4", "conv3"),
        ("conv5", "add5"),
        ("conv7", "conv6"),
        ("conv8", "add8"),
        ("pool", "fc"),
    ]
    forms = {dict(launch.source.defines)["MAIN_FORM"] for launch in plan.launches[:-1]}
    assert len(forms) == 1, "every convolution looks its outputs up in a table"
    blocks = [launch.grid[0] for launch in plan.launches[:-1]]
    assert blocks == [256, 256, 256, 64, 64, 128, 16], "a block per tile of Winograd, per map of the simple convolution"


def test_winograd_refuses_layers_whose_sums_may_exceed_int32() -> None:
    network = NetworkBuilder("paper-large", TensorType((4, 4, 3)))
    first = network.conv(network.start, 8, weights=lambda shape: network.binary(shape, 3))
    model = network.observe(first).model
    kernels = [launch.source.path for launch in lower(model, NANO, kernels=KERNELS).launches]
    assert kernels[0] == "baselines/paper/map.cu"


@pytest.mark.slow
@pytest.mark.parametrize("kernels", SETS)
@in_parts(by_name(CASES))
def test_a_conformance_case_equals_the_reference(case: Case, kernels: str) -> None:
    """Or the design says beforehand that it has no kernel for it."""
    try:
        lower(case.model, NANO, kernels=SETS[kernels])
    except UnsupportedError:
        return
    for _, batch in case.batches():
        assert_equal(case.model, SETS[kernels], batch, 13, "quick")
