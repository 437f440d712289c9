"""Tables of layers of one element, and convolutions of whole maps: which layers they replace, and the same integers."""

import numpy as np

from edgemeta.kernels.lowering.replacement import table_of, table_of_all, without_phases
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
        table = table_of(layer, source)
        assert table is not None
        x = layer.integers([x], [source])
        source = layer.output
    np.testing.assert_array_equal(table_of_all(net.layers, net.input)[every.ravel().astype(int) + 128], x.ravel())


def test_layers_of_a_table_for_each_channel_and_others_have_none() -> None:
    net = NetworkBuilder("none", TensorType((2, 2, 3), zero_point=-5))
    net.lookup(INPUT, UNSIGNED, per_channel=True)
    net.rescale(INPUT, UNSIGNED, "table")
    net.upsample(INPUT, (2, 2))
    net.conv(INPUT, 3)
    assert [table_of(layer, net.input) for layer in net.layers] == [None] * 4


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
