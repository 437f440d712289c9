"""Two or three products in one 16-bit multiplication: the fields never touch, and the convolution stays exact."""

from collections.abc import Iterator

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import Compiler
from edgemeta.kernels.cuda.direct.fields import Fields, packed_filters, possible_fields
from edgemeta.kernels.cuda.direct.launch import candidates
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.kernels.cuda.one_step import SM_53, Layout, batches, inside, network, plan_of, ringed, run, step_of

U4, S4 = TensorType((1, 1, 1), bits=4, signed=False, zero_point=3), TensorType((1, 1, 1), bits=4, zero_point=-2)
U2, U8 = TensorType((1, 1, 1), bits=2, signed=False), TensorType((1, 1, 1), signed=False, zero_point=7)

LAYOUTS = [
    (Layout("w4a4", (7, 9, 8), 12, source=U4, target=U8), 7),
    (Layout("w4a4 signed, strided", (9, 8, 6), 20, source=S4, target=U8, stride=(2, 2)), 7),
    (Layout("w4a4 pointwise", (6, 10, 32), 16, source=U4, kernel=(1, 1), padding=(0, 0, 0, 0)), 7),
    (Layout("w4a4 of -8", (5, 6, 5), 9, source=U4, target=U8, form="table"), 8),
    (Layout("w2a2", (7, 9, 16), 17, source=U2, target=U8), 1),
    (Layout("w4a4 residual", (6, 6, 12), 12, source=U4, target=U4, adds=True, clamps=True), 7),
    (Layout("w2a8", (6, 7, 8), 12, source=U8, target=U8), 1),
]
IDS = [layout.name for layout, _ in LAYOUTS]


def weights_of(layout: Layout, most: int) -> np.ndarray:
    """Filters of the extremes, of both in turn, and random ones: -most .. most, or two's complement if it is even."""
    shape = (layout.outputs, *layout.kernel, layout.shape[2])
    least, greatest = -most, most - (most % 2 == 0)
    weights = np.random.default_rng(5).integers(least, greatest + 1, shape)
    signs = np.indices(shape[1:]).sum(axis=0) % 2 == 0
    weights[0], weights[1], weights[2] = least, greatest, np.where(signs, least, greatest)
    return weights.astype(np.int8)


def with_fields(model: Model) -> Iterator[Candidate]:
    """Candidates of the convolution with several filters in a word, also those that are not the best."""
    step, tensors = step_of(model)
    seen = set()
    for each in candidates(step, tensors, SM_53):
        if each.tile.get("fields", 1) > 1 and each.tile["fields"] not in seen:
            seen.add(each.tile["fields"])
            yield each


@pytest.mark.parametrize(
    ("most", "source", "count", "bits"), [(7, U4, 2, 12), (8, U4, 2, 11), (7, S4, 2, 12), (1, U2, 3, 7), (1, U8, 2, 14)]
)
def test_the_widest_fields_of_a_kind(most: int, source: TensorType, count: int, bits: int) -> None:
    weights = np.random.default_rng(0).integers(-most, most + (most != 8), (8, 1, 1, 16)).astype(np.int32)
    weights[0, 0, 0, 0] = -most
    first = possible_fields(weights, source)[0]
    assert (first.count, first.bits) == (count, bits)
    assert 1 <= first.planes <= 4


@pytest.mark.parametrize("most", [100, 127])
def test_eight_bits_have_no_fields(most: int) -> None:
    assert possible_fields(np.full((4, 3, 3, 4), most, np.int32), U8) == []


@pytest.mark.parametrize(("most", "source"), [(7, U4), (8, U4), (7, S4), (1, U2), (2, U2), (1, U8), (3, U4)])
def test_sums_of_the_bound_are_the_fields_and_one_more_is_not_claimed(most: int, source: TensorType) -> None:
    """Words of extreme weights and activations, as many as may be added up: each field is the sum of its products."""
    rng = np.random.default_rng(most)
    for sign in (-1, 1):
        weights = rng.integers(-most, most + 1, (12, 1, 3, 8)).astype(np.int32)
        weights[::2], weights[1::4] = sign * most, -sign * most
        for fields in possible_fields(weights, source):
            words = packed_filters(weights, fields, 4)
            assert np.abs(words).max() <= 32767
            for activation in (source.lo, source.hi, None):
                shape = (3, 8)
                x = rng.integers(source.lo, source.hi + 1, shape) if activation is None else np.full(shape, activation)
                planes = slice(0, 2 * fields.planes)
                packed = fields.start + (words[:, :, 0, :, planes].astype(np.int64) * x[:, planes]).sum(axis=(2, 3))
                assert np.array_equal(packed, packed.astype(np.int32)), "int32 holds it"
                expected = (weights[:, 0, :, planes].astype(np.int64) * x[:, planes]).sum(axis=(1, 2))
                np.testing.assert_array_equal(unpacked(packed, fields, 4), expected)


def unpacked(packed: np.ndarray, fields: Fields, filters: int) -> np.ndarray:
    """As `add_fields` of the kernel."""
    parts = []
    for k in range(filters):
        word, i = divmod(k, fields.count)
        shifted = packed[:, word] >> i * fields.bits
        half = 1 << fields.bits - 1
        parts.append(shifted if i == fields.count - 1 else (shifted & 2 * half - 1) - half)
    return np.stack(parts, axis=1).reshape(-1)


@pytest.mark.parametrize(("layout", "most"), LAYOUTS, ids=IDS)
def test_convolutions_equal_the_reference(layout: Layout, most: int) -> None:
    model = network(layout, weights_of(layout, most))
    tried = []
    for candidate in with_fields(model):
        tried.append(candidate.tile["fields"])
        plan = plan_of(model, candidate)
        for batch in batches(model.input):
            np.testing.assert_array_equal(
                run(plan, batch, 5, "checked"), reference.run(model, batch)[0], err_msg=str(candidate.tile)
            )
    assert set(tried) == ({2, 3} if layout.name == "w2a2" else {2})


@pytest.mark.parametrize(
    ("layout", "most"),
    [
        pytest.param(
            *each, id=each[0].name, marks=() if n == 0 else pytest.mark.gate("2 s each: machine code executed")
        )
        for n, each in enumerate(LAYOUTS)
    ],
)
def test_their_machine_code_equals_the_reference(
    layout: Layout, most: int, compiler: Compiler, disassembler: None
) -> None:
    model = network(layout, weights_of(layout, most))
    for candidate in with_fields(model):
        plan = plan_of(model, candidate)
        executed = ExecutedPlan(plan, compiler)
        for batch in batches(model.input):
            (found,) = executed.run(ringed(plan.input, batch))
            np.testing.assert_array_equal(inside(plan.outputs[0], found), reference.run(model, batch)[0])


def test_they_are_chosen_only_where_the_prediction_says_so() -> None:
    """First where products take the time; never where one instruction makes four products, nor for eight bits."""
    layout = Layout("large", (16, 16, 64), 64, source=U4, kernel=(1, 1), padding=(0, 0, 0, 0))
    step, tensors = step_of(network(layout, weights_of(layout, 7)))
    assert next(iter(candidates(step, tensors, SM_53))).tile["fields"] == 2
    for name in ("sm_61", "sm_72", "sm_87"):
        assert all("fields" not in each.tile for each in candidates(step, tensors, ARCHITECTURES[name]))
    step, tensors = step_of(network(layout, np.full((64, 1, 1, 64), 127, np.int8)))
    assert all("fields" not in each.tile for each in candidates(step, tensors, SM_53))
