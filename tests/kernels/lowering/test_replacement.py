"""Tables of layers of one element, and convolutions of whole maps: which layers they replace, and the same integers."""

from dataclasses import replace

import numpy as np

from edgemeta.kernels.lowering.replacement import has_table, table_of_all, without_phases
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Conv, TensorType, slide
from tests.conformance.cases import CASES
from tests.conformance.networks import NetworkBuilder

SIGNED, UNSIGNED = TensorType((1, 1, 1), zero_point=-5), TensorType((1, 1, 1), signed=False, zero_point=77)


def test_a_chain_of_tables_is_what_its_layers_make_one_after_the_other() -> None:
    net = NetworkBuilder("chain", TensorType((16, 16, 1), zero_point=-5))
    clamped = net.rescale(net.clamp(INPUT, -70, 99), UNSIGNED, "multiplier-per-layer")
    net.lookup(net.rescale(clamped, SIGNED, "table-per-layer"), UNSIGNED)
    x = every = np.arange(-128, 128, dtype=np.int8).reshape(1, 16, 16, 1)
    source = net.input
    for layer in net.layers:
        assert has_table(layer, source)
        x = layer.integers([x], [source])
        source = layer.output
    np.testing.assert_array_equal(table_of_all(net.layers, net.input)[0, every.ravel().astype(int) + 128], x.ravel())


def test_a_chain_with_tables_for_each_channel_is_one_table_for_each_or_for_all() -> None:
    net = NetworkBuilder("chain", TensorType((2, 128, 3), zero_point=-5))
    net.lookup(net.lookup(net.clamp(INPUT, -70, 99), UNSIGNED, per_channel=True), SIGNED)
    every = np.arange(-128, 128, dtype=np.int8).reshape(1, 2, 128, 1).repeat(3, axis=3)
    x, source = every, net.input
    for layer in net.layers:
        x, source = layer.integers([x], [source]), layer.output
    np.testing.assert_array_equal(table_of_all(net.layers, net.input), x.reshape(256, 3).T)
    constant = replace(net.layers[-1], table=np.full((1, 256), 3, np.int8))
    assert table_of_all((*net.layers[:-1], constant), net.input).shape == (1, 256)


def test_a_rescaling_by_channel_and_other_layers_have_none() -> None:
    net = NetworkBuilder("none", TensorType((2, 2, 3), zero_point=-5))
    net.rescale(INPUT, UNSIGNED, "table")
    net.upsample(INPUT, (2, 2))
    net.conv(INPUT, 3)
    assert not any(has_table(layer, net.input) for layer in net.layers)


def test_phases_that_nothing_else_reads_become_one_convolution_of_the_map() -> None:
    replaced = {
        case.name: without_phases(case.model)
        for case in CASES
        if case.name.startswith(("space-to-depth", "slice-of"))
        and len(without_phases(case.model).layers) < len(case.model.layers)
    }
    assert len(replaced) == 13
    assert not {"space-to-depth-odd", "space-to-depth-with-another-reader", "space-to-depth-depthwise"} & set(replaced)
    for name, model in replaced.items():
        conv = model.layers[-2]
        assert isinstance(conv, Conv), name
        shape = model.types[conv.input].shape
        assert conv.weights.shape[3] == shape[2], name
        kernel = conv.weights.shape[1], conv.weights.shape[2]
        assert slide(shape, kernel, conv.stride, conv.padding) == conv.output.shape[:2], name
