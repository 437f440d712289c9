"""Direct convolutions of every geometry on the CPU, with every access checked: equal to the reference bit for bit."""

from dataclasses import replace

import numpy as np
import pytest

from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.direct.tiles import Geometry, Tile, tiles
from edgemeta.kernels.cuda.elementwise.launch import candidates as elementwise
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.pool_dense.launch import candidates as pool_dense
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import TensorType
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import Form, NetworkBuilder
from tests.emulation.executor import Emulator, Order

KERNELS = (direct, pool_dense, elementwise)
FORMS: tuple[Form, ...] = ("multiplier", "multiplier-per-layer", "table", "table-per-layer")
NAMES = ("sm_53", "sm_87")


def assert_equal(case: Case, plan: LaunchPlan, mode: str = "checked", order: Order = "forward") -> None:
    emulator = Emulator(plan, order, mode)
    for name, batch in case.batches():
        np.testing.assert_array_equal(emulator.run(batch[:1])[0], reference.run(case.model, batch[:1])[0], err_msg=name)


def random_network(seed: int) -> Case:
    """An image of odd size, a first convolution that pads while loading, a second with a residual or a shortcut."""
    rng = np.random.default_rng(seed)

    def kind(is_signed: bool) -> TensorType:
        plain = TensorType((1, 1, 1), 8, is_signed)
        return replace(plain, zero_point=int(rng.integers(plain.lo, plain.hi + 1)))

    height, width = rng.integers(3, 12, 2).tolist()
    net = NetworkBuilder(f"direct-{seed}", replace(kind(seed % 2 == 0), shape=(height, width, int(rng.choice([1, 3])))))
    channels, filters = rng.integers(1, 40, 2).tolist()
    kernel = tuple(min(side, size) for side, size in zip(rng.integers(1, 6, 2).tolist(), (height, width), strict=True))
    padding = tuple(rng.integers(0, side) for side in kernel * 2)
    first = net.conv(
        INPUT, channels, kernel, (1, 1), tuple(map(int, padding)), form=FORMS[seed % 4], output=kind(seed % 3 == 0)
    )
    stride = tuple(rng.integers(1, 4, 2).tolist())
    second = net.conv(first, filters, (3, 3), stride, form=FORMS[seed // 4 % 4], output=kind(seed % 5 < 2))
    pointwise = net.conv(first, filters, (1, 1), stride, (0, 0, 0, 0), form="multiplier", output=kind(seed % 5 < 3))
    if net.type_of(second).shape == net.type_of(pointwise).shape:
        third = net.conv(second, filters, (3, 3), output=kind(seed % 2 == 1))
        second = net.add(third, pointwise, multipliers=(1_234_567, 654_321), shift=20, relu=seed % 2 == 0)
    return net.observe(second)


MORE = pytest.mark.gate("3 s each: modules with every access checked take long to compile")


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=MORE) for seed in range(3, 12))])
def test_random_networks(seed: int) -> None:
    case = random_network(seed)
    assert_equal(case, lower(case.model, ARCHITECTURES[NAMES[seed % 2]], kernels=KERNELS))


@pytest.mark.parametrize("order", ["reverse", 7])
def test_any_order_of_threads(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels split among threads, and a shortcut."""

    def split(geometry: Geometry, architecture: Architecture) -> tuple[Tile, ...]:
        return tuple(tile for tile in tiles(geometry, architecture) if tile.split > 1)

    monkeypatch.setattr("edgemeta.kernels.cuda.direct.launch.tiles", split)
    case = next(case for case in CASES if case.name == "residual-block-multiplier")
    plan = lower(case.model, ARCHITECTURES["sm_53"], kernels=KERNELS)
    beside = next(launch for launch in plan.launches if len(launch.layers) == 2 and launch.layers[1] == "conv1")
    assert beside.tile["split"] > 1
    assert_equal(case, plan, "quick", order)


def wide_residual() -> Model:
    net = NetworkBuilder("passes", TensorType((9, 9, 250)))
    hidden = net.conv(net.start, 20, (3, 3), (2, 2))
    shortcut = net.conv(net.start, 20, (1, 1), (2, 2), (0, 0, 0, 0))
    return net.observe(
        net.add(net.conv(hidden, 20, (1, 1), padding=(0, 0, 0, 0)), shortcut, multipliers=(1, 1), shift=1)
    ).model


@pytest.mark.gate("5 s: every tile is compiled")
@pytest.mark.parametrize(
    "architecture", ["sm_53", pytest.param("sm_87", marks=pytest.mark.gate("5 s: every tile is compiled once more"))]
)
def test_every_candidate_of_a_layer(architecture: str) -> None:
    """Also the tiles that only tuning would take; input channels do not fit shared memory at once."""
    model = wide_residual()
    case = Case("passes", model)
    (name,) = [layer.name for layer in model.layers if layer.name == "conv1"]
    chosen = ARCHITECTURES[architecture]
    passes = set()
    for choice in range(candidate_counts(model, chosen, KERNELS)[name]):
        plan = lower(model, chosen, {name: choice}, KERNELS)
        passes |= {dict(launch.source.defines)["IN_PASSES"] for launch in plan.launches if name in launch.layers}
        assert_equal(case, plan, "quick", 3)
    assert max(passes) > 1


@pytest.mark.parametrize("architecture", NAMES)
def test_the_image_as_residual(architecture: str) -> None:
    """Packed bytes whose pixels are not aligned."""
    net = NetworkBuilder("image-residual", TensorType((5, 6, 3), signed=False, zero_point=33))
    conv = net.conv(INPUT, 3)
    case = net.observe(net.clamp(net.add(INPUT, conv, multipliers=(900_001, 40_000), shift=18), 20, 200))
    assert_equal(case, lower(case.model, ARCHITECTURES[architecture], kernels=KERNELS))


def test_weights_of_16_bits_use_the_16_bit_path() -> None:
    case = next(case for case in CASES if case.name == "binary8")
    plan = lower(case.model, ARCHITECTURES["sm_87"], kernels=KERNELS)
    depths = {launch.layers[0]: launch.tile["depth"] for launch in plan.launches if "depth" in launch.tile}
    assert depths == {"spread": 4, "conv1": 2}
    assert_equal(case, plan, "quick")
