"""The rules of a network that the integer kernels will run in 8 bits: what a training ends with."""

from typing import Any

from edgemeta.toolchain.simulate.prepare import prepare
from edgemeta.toolchain.torch_network import TorchNetwork

_EIGHT_BITS: dict[str, Any] = {
    "rounding": {"training": "nearest_even", "evaluation": "nearest_even"},
    "rules": [
        {
            "layers": "*",
            "weight": {"kind": "int", "bits": 8, "symmetric": True, "per_channel": True, "observer": "min_max"},
            "activation": {"kind": "int", "bits": 8, "symmetric": False, "observer": "moving_average"},
        }
    ],
}


def in_eight_bits(network: TorchNetwork) -> TorchNetwork:
    """The same network, whose layers round their weights, with a scale for each channel, and what they read."""
    rounded = prepare(network, _EIGHT_BITS)
    assert isinstance(rounded, TorchNetwork)
    return rounded
