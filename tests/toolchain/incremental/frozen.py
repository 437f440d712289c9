"""How much of a network of scheme incremental is frozen."""

from edgemeta.toolchain.incremental.network import PartlyFrozen


def frozen_share(network: PartlyFrozen) -> float:
    """Share 0 .. 1 of all quantized weights that are frozen."""
    return sum(int(mask.sum()) for _, mask in network.held) / sum(mask.numel() for _, mask in network.held)
