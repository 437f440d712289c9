"""Plans: buffers with the rings that their readers want, choices among candidates, one sentence where nothing fits."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.elementwise.launch import candidates as elementwise
from edgemeta.kernels.cuda.lowering import FUSIONS, KERNELS, candidate_counts, lower, unsupported
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.pool_dense.launch import candidates as pool_dense
from edgemeta.kernels.cuda.tensor.launch import candidates as tensor
from edgemeta.kernels.lowering.fusion import fuse
from edgemeta.kernels.lowering.steps import Step, UnsupportedError
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import MaxPool, TensorType
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import NetworkBuilder
from tests.emulation.executor import Emulator

SM_53 = ARCHITECTURES["sm_53"]
DIRECT = (direct, pool_dense, elementwise)
NONE = (0, 0, 0, 0)


def rings(plan: LaunchPlan) -> dict[str, tuple[int, int, int, int]]:
    return {buffer.name: buffer.ring for buffer in plan.buffers}


def test_a_buffer_has_the_widest_ring_of_its_readers() -> None:
    net = NetworkBuilder("rings", TensorType((6, 6, 3)))
    first = net.conv(INPUT, 3, (1, 1), padding=NONE)
    wide = net.conv(first, 3, (5, 5), (2, 2), (2, 1, 0, 2))
    tall = net.conv(first, 3, (7, 1), (2, 2), (3, 0, 3, 0))
    added = net.add(wide, tall, multipliers=(1, 1), shift=0)
    plan = lower(net.observe(added).model, SM_53, kernels=DIRECT)
    assert rings(plan)[first] == (3, 1, 3, 2)
    assert rings(plan)[added] == NONE


def test_input_and_output_are_packed(resnet8: Case) -> None:
    plan = lower(resnet8.model, SM_53)
    assert [buffer.name for buffer in plan.buffers if buffer.packed] == [INPUT, resnet8.model.outputs[0]]
    assert plan.input.shape == resnet8.model.input.shape
    assert plan.outputs[0].kind == resnet8.model.output_types[0]


def test_an_output_with_other_readers_stays_packed() -> None:
    """Kernels pad any packed tensor while loading."""
    net = NetworkBuilder("read-again", TensorType((1, 1, 3), zero_point=-7))
    conv = net.conv(INPUT, 5, (3, 3), output=TensorType((1, 1, 1), zero_point=9))
    net.dense(net.conv(conv, 4, (3, 3)), 2)
    case = net.finish()
    model = replace(case.model, outputs=(conv,))
    batch = next(batch for _, batch in case.batches())
    np.testing.assert_array_equal(
        Emulator(lower(model, SM_53), mode="checked").run(batch)[0], reference.run(model, batch)[0]
    )


def nibbles(plan: LaunchPlan) -> list[str]:
    return [buffer.name for buffer in plan.buffers if buffer.nibbles]


def test_tensors_that_all_their_steps_take_as_nibbles_are_stored_so() -> None:
    sm_87 = ARCHITECTURES["sm_87"]
    kind = TensorType((5, 6, 32), bits=4, zero_point=-3)
    net = NetworkBuilder("nibbles", kind)
    conv = partial(net.conv, weights=partial(net.fixed, bits=4), output=kind)
    first = conv(net.start, 64)
    second = conv(first, 32)
    pooled = net.pool(MaxPool, second, (3, 3), (1, 1), (1, 1, 1, 1))
    model = net.observe(net.add(conv(second, 32), pooled, multipliers=(1, 1), shift=0)).model
    plan = lower(model, sm_87)
    assert nibbles(plan) == [first], "the first convolution writes bytes, the pool reads and writes some"
    (buffer,) = (each for each in plan.buffers if each.nibbles)
    assert buffer.shape == (7, 8, 32)
    assert buffer.image_bytes == 7 * 8 * 32
    assert buffer.fill == 0xDD, "twice -3"
    narrow = next(n for n, each in enumerate(tensor(*writer(model, first), sm_87)) if each.tile["columns"] == 2)
    assert nibbles(lower(model, sm_87, {first: narrow})) == [], "half a word for each lane"
    assert nibbles(lower(model, ARCHITECTURES["sm_90"])) == []
    assert nibbles(lower(replace(model, outputs=(first,)), sm_87)) == []


def writer(model: Model, name: str) -> tuple[Step, Tensors]:
    """The step that writes a tensor, and the types."""
    step = next(each for each in fuse(model, FUSIONS) if name in each.writes)
    types = model.types
    return step, Tensors(types, frozenset({INPUT, *model.outputs}))


def test_every_choice_is_a_complete_plan() -> None:
    case = next(case for case in CASES if case.name == "conv-3x3-stride2-signed")
    counts = candidate_counts(case.model, SM_53, DIRECT)
    assert set(counts) == {launch.layers[0] for launch in lower(case.model, SM_53).launches}
    seen = set()
    for choice in range(counts["conv1"]):
        plan = lower(case.model, SM_53, {"conv1": choice}, DIRECT)
        seen.add(tuple(plan.launches[1].tile.items()))
    assert len(seen) == counts["conv1"] == 8


def test_the_rule_is_choice_0(resnet8: Case) -> None:
    by_rule, asked = (lower(resnet8.model, SM_53, choices) for choices in ({}, dict.fromkeys(["conv0", "average"], 0)))
    assert [launch.source for launch in by_rule.launches] == [launch.source for launch in asked.launches]


def test_kernels_are_queried_in_order(resnet8: Case) -> None:
    asked: list[str] = []

    def listening(step: Step, _tensors: Tensors, _architecture: Architecture) -> Iterable[Candidate]:
        asked.append(step.layers[0].name)
        return ()

    plan = lower(resnet8.model, SM_53, kernels=(listening, *KERNELS))
    assert asked == [launch.layers[0] for launch in plan.launches]


def test_mismatched_data_is_refused(resnet8: Case) -> None:
    tiny = replace(SM_53, shared_bytes=256)
    with pytest.raises(
        UnsupportedError, match=r"layer 'conv0': no kernel fits into the 256 bytes of shared memory of sm"
    ):
        lower(resnet8.model, tiny)


def test_a_layer_without_a_kernel_is_named() -> None:
    net = NetworkBuilder("refused", TensorType((4, 4, 3)))
    net.dense(net.pool(MaxPool, INPUT, (2, 2), (2, 2), NONE), 2)
    with pytest.raises(UnsupportedError, match=r"^layer 'pool0': MaxPool is not supported$"):
        lower(net.finish().model, SM_53, kernels=DIRECT)


def test_too_many_tensors_to_concatenate_are_refused() -> None:
    def joined(count: int) -> Model:
        net = NetworkBuilder("joined", TensorType((1, 1, 3)))
        return net.observe(net.concat(*[INPUT] * count)).model

    assert lower(joined(32), SM_53).launches
    reason = r"a concatenation of 33 tensors is not supported, expected at most 32$"
    with pytest.raises(UnsupportedError, match=rf"^layer 'concat0': {reason}"):
        lower(joined(33), SM_53)
    concat = joined(33).layers[0]
    assert re.match(reason, unsupported(concat, [TensorType((1, 1, 3))] * 33) or "")


def test_every_kernel_folder_is_queried() -> None:
    """First those of convolutions in their order, then the others; not preprocessing: no layer."""
    folders = [kernel.__module__.split(".")[-2] for kernel in KERNELS]
    assert folders[:5] == ["popc", "tensor", "winograd", "direct", "winograd"]
    assert folders[-1] == "popc", "for tuning only"
    assert {*folders} == {path.parent.name for path in SOURCES.glob("*/launch.py")} - {"preprocess"}
    assert len(KERNELS) == len(set(KERNELS))


@pytest.mark.parametrize(
    "architecture",
    [
        pytest.param(each, id=name, marks=[] if name in ("sm_53", "sm_87") else pytest.mark.gate("1 s each"))
        for name, each in ARCHITECTURES.items()
    ],
)
def test_launches_stay_within_the_architecture(resnet8: Case, architecture: Architecture) -> None:
    plan = lower(resnet8.model, architecture)
    assert len(plan.launches) == 8
    for launch in plan.launches:
        assert launch.shared_bytes <= min(architecture.shared_bytes, 48 * 1024)
        assert launch.block[0] * launch.block[1] * launch.block[2] <= 1024
        assert all(side >= 1 for side in (*launch.grid, *launch.block))
