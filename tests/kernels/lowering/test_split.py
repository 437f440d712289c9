"""Where a model is cut: at one tensor, as seldom as can be, each unsupported part as short as can be."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from edgemeta.kernels.lowering.split import Part, split
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Conv, Dense, TensorType
from edgemeta.model.prove import _prove_layer
from tests.conformance.cases import CASES
from tests.conformance.networks import NetworkBuilder
from tests.conformance.random_networks import random_network

IMAGE = TensorType((6, 6, 3))
NONE = (0, 0, 0, 0)


def spans(model: Model, *refused: str) -> list[str]:
    """Each part: its first and last layer, in brackets where it is not supported."""
    parts = split(model, dict.fromkeys(refused, "no"))
    return [part.span if part.is_supported else f"[{part.span}]" for part in parts]


@pytest.fixture
def chain() -> Model:
    """conv0 conv1 lookup2 conv3 clamp4 lookup5 dense6."""
    net = NetworkBuilder("chain", IMAGE)
    looked = net.lookup(net.conv(net.conv(INPUT, 4), 4), TensorType((1, 1, 1)))
    clamped = net.clamp(net.conv(looked, 4), -100, 100)
    return net.observe(net.lookup(clamped, TensorType((1, 1, 1)))).model


def test_a_supported_model_is_one_part_itself(chain: Model) -> None:
    (part,) = split(chain, {})
    assert part.model is chain
    assert part.source == INPUT


def test_a_chain_is_cut_around_each_unsupported_layer(chain: Model) -> None:
    assert spans(chain, "lookup2") == ["conv0..conv1", "[lookup2]", "conv3..dense6"]
    assert spans(chain, "lookup2", "lookup5") == ["conv0..conv1", "[lookup2]", "conv3..clamp4", "[lookup5]", "dense6"]
    assert spans(chain, "conv0") == ["[conv0]", "conv1..dense6"]
    assert spans(chain, "conv0", "conv1") == ["[conv0..conv1]", "lookup2..dense6"]
    assert spans(chain, "dense6") == ["conv0..lookup5", "[dense6]"]


def test_layers_without_products_are_not_worth_a_seam(chain: Model) -> None:
    assert spans(chain, "conv1", "conv3") == ["conv0", "[conv1..conv3]", "clamp4..dense6"]
    assert spans(chain, "conv3", "dense6") == ["conv0..lookup2", "[conv3..dense6]"]
    assert spans(chain, *(layer.name for layer in chain.layers if isinstance(layer, Conv | Dense))) == [
        "[conv0..dense6]"
    ]


def test_a_branch_is_never_cut() -> None:
    net = NetworkBuilder("branches", IMAGE)
    before = net.conv(INPUT, 4)
    left = net.lookup(before, TensorType((1, 1, 1)))
    joined = net.add(left, net.conv(before, 4), multipliers=(1, 1), shift=0)
    model = net.observe(net.conv(joined, 4)).model
    assert spans(model, left) == ["conv0", "[lookup1..add3]", "conv4..dense5"]


def test_an_output_inside_belongs_to_its_part_and_does_not_hinder_a_cut() -> None:
    net = NetworkBuilder("two-outputs", IMAGE)
    first = net.conv(INPUT, 4)
    head = net.conv(first, 2, form=None)
    looked = net.lookup(first, TensorType((1, 1, 1)))
    last = net.conv(looked, 3, form=None)
    made = net.finish().model
    model = Model(made.name, made.input, made.layers, (last, head), made.task, made.preprocessing)
    supported, refused, rest = split(model, {looked: "no"})
    assert (supported.model.outputs, refused.model.outputs, rest.model.outputs) == ((first, head), (looked,), (last,))
    assert (supported.source, refused.source, rest.source) == (INPUT, first, looked)


def test_a_part_may_read_a_tensor_of_more_than_one_part_before() -> None:
    """The image, which the first two parts only make outputs of."""
    net = NetworkBuilder("image-again", IMAGE)
    head = net.conv(INPUT, 4, form=None)
    other = net.conv(net.lookup(INPUT, TensorType((1, 1, 1))), 4, form=None)
    last = net.conv(INPUT, 4, form=None)
    made = net.finish().model
    model = Model(made.name, made.input, made.layers, (head, other, last), made.task, made.preprocessing)
    parts = split(model, {"lookup1": "no"})
    assert [(part.source, part.model.outputs) for part in parts] == [(INPUT, (name,)) for name in (head, other, last)]


def test_layers_that_nothing_reads_are_left_out() -> None:
    net = NetworkBuilder("dead", IMAGE)
    first = net.conv(INPUT, 4)
    net.lookup(first, TensorType((1, 1, 1)))
    model = net.observe(net.conv(first, 4)).model
    assert spans(model, "lookup1") == ["conv0", "conv2..dense3"]


def test_parts_of_a_stored_model_have_digests_of_their_own(chain: Model) -> None:
    stored = Model(
        chain.name, chain.input, chain.layers, chain.outputs, chain.task, chain.preprocessing, digest="ab" * 32
    )
    digests = [part.model.digest for part in split(stored, {"lookup2": "no"})]
    assert len({*digests, stored.digest}) == 4
    assert all(len(digest) == 64 for digest in digests)
    assert {part.model.digest for part in split(chain, {"lookup2": "no"})} == {""}


@pytest.mark.parametrize("seed", range(3))
def test_parts_are_least_and_right_whatever_is_refused(seed: int) -> None:
    """Beside the definition, written out: every cut has one tensor, and no other cut would make a part shorter."""
    rng = np.random.default_rng(seed)
    for model in [case.model for case in CASES] + [random_network(number).model for number in range(200)]:
        refused = {layer.name: "no" for layer in model.layers if rng.random() < 0.4}
        parts = split(model, refused)
        assert_right(model, parts, refused)


def assert_right(model: Model, parts: Sequence[Part], refused: dict[str, str]) -> None:
    names = [layer.name for layer in model.layers]
    made = {INPUT}
    for part in parts:
        assert part.source in made
        begin, end = names.index(part.model.layers[0].name), names.index(part.model.layers[-1].name) + 1
        assert [layer.name for layer in part.model.layers] == names[begin:end]
        assert alive(model, begin) == {part.source}
        assert set(part.refusals) == set(names[begin:end]) & set(refused)
        if len(parts) > 1 and not part.refusals:
            assert any(isinstance(layer, Conv | Dense) for layer in part.model.layers)
        if part.refusals:
            assert_no_worthy_end(model, begin, end, refused)
        types = {INPUT: part.model.input}
        for layer in part.model.layers:
            _prove_layer(layer, types, is_output=layer.name in model.outputs)
            types[layer.name] = layer.output
        made |= set(part.model.outputs)
    assert set(model.outputs) <= made
    alternate = all(one.is_supported != other.is_supported for one, other in pairwise(parts))
    assert alternate or has_dead(model)


def assert_no_worthy_end(model: Model, begin: int, end: int, refused: dict[str, str]) -> None:
    """Neither end of an unsupported part could be cut off as supported layers with products."""
    cuts = [place for place in range(begin + 1, end) if len(alive(model, place)) == 1]
    for one, other in [*((begin, cut) for cut in cuts), *((cut, end) for cut in cuts)]:
        layers = model.layers[one:other]
        supported = not any(layer.name in refused for layer in layers)
        assert not (supported and any(isinstance(layer, Conv | Dense) for layer in layers))


def alive(model: Model, place: int) -> set[str]:
    """Tensors made before a place and read from it on."""
    made = {INPUT, *(layer.name for layer in model.layers[:place])}
    return made & {name for layer in model.layers[place:] for name in layer.sources}


def has_dead(model: Model) -> bool:
    read = {name for layer in model.layers for name in layer.sources} | set(model.outputs)
    return any(layer.name not in read for layer in model.layers)


def test_the_parts_one_after_the_other_are_the_model(chain: Model) -> None:
    batch = np.random.default_rng(0).integers(-128, 128, (2, 6, 6, 3)).astype(np.int8)
    tensors = {INPUT: batch}
    for part in split(chain, {"lookup2": "no"}):
        tensors.update(zip(part.model.outputs, reference.run(part.model, tensors[part.source]), strict=True))
    np.testing.assert_array_equal(tensors[chain.outputs[0]], reference.run(chain, batch)[0])
