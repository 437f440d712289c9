"""AXI ports of an accelerator in Icarus by cocotb: random pauses on all channels, counters, errors, resets."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.fpga.generate.network import plan_network
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, memory_files, network_source, rtl_sources
from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.power_of_two import PowerOfTwoBuilder
from tests.kernels.fpga.test_engines import simulate, some_images

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.mark.gate("3 s: an accelerator is compiled and simulated by Icarus")
def test_ports_of_an_accelerator(tmp_path: Path) -> None:
    net = PowerOfTwoBuilder(TensorType((4, 4, 2)), 3)
    model = net.model(net.dense("fc", net.pool("pool", INPUT), 3))
    network = plan_network(model, {})
    sources = {
        **rtl_sources(),
        **memory_files(network),
        "network.sv": network_source(network, str(tmp_path)),
        "accelerator.sv": accelerator_source(network),
    }
    for file, text in sources.items():
        (tmp_path / file).write_text(text)
    images = some_images(model)
    expected = reference.run(model, images)[0].astype(np.int64).ravel()
    words = images.view(np.uint8).ravel()
    simulate(tmp_path, "edgemeta_accelerator", words, expected, bench="accelerator_bench")
