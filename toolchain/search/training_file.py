"""The found widths as a config of `edgemeta simulate train`, so that the network is trained on at these widths.

Weights become the simulator's `int` (symmetric, a scale for each channel; the scores' layer has one) or `power_of_two`,
feature maps its unsigned `int`. Ranges of few bits are those of least mean squared error. Layers that read the image
have no rule for it: a device's image has 8 bits.
"""

from pathlib import Path
from typing import Any

import yaml

from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.number_formats.formats import ObserverName
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.train.start import described, known_design, require_trainable

FILE = "training.yaml"

_STEPS = {
    "epochs": 30,
    "batch": 128,
    "lr": 0.02,
    "warmup_epochs": 1,
    "weight_decay": 1e-4,
    "mixed_precision": True,
    "soft": 0.9,
}
"""For a network that begins with trained weights."""
_NEAREST = {"training": "nearest_even", "evaluation": "nearest_even"}
"""Stochastic rounding would move weights of 2 bits by up to a whole step of three, in each step of the training."""
_FEW_BITS = 5
"""Up to these a range that leaves outliers out has a clearly smaller error; to look for it takes time in each step."""


def require_searched(config: SearchConfig, network: BitNetwork) -> None:
    """Raise SearchError for a network or a scheme that the simulator does not train."""
    if config.scheme == "binary":
        raise SearchError("the simulator has no binary bases, expected the scheme fixed or power-of-two")
    try:
        require_trainable(network.model, config.network)
    except ModelError as error:
        raise SearchError(str(error)) from error


def training_config(config: SearchConfig, network: BitNetwork, bits: Bits) -> dict[str, Any]:
    """The entries of the config. Raises SearchError for a network or a scheme that the simulator does not train."""
    require_searched(config, network)
    design = known_design(network.model)
    return {
        **({} if design is None else {"network": described(design)}),
        "start": config.network,
        "labels": list(network.model.labels),
        **_STEPS,
        "rounding": _NEAREST,
        "rules": [_rule(config, network, bits, layer) for layer in network.layers],
    }


def write_training(config: SearchConfig, network: BitNetwork, bits: Bits, path: Path) -> None:
    """Write the config as YAML. Raises SearchError."""
    entries = training_config(config, network, bits)
    text = yaml.safe_dump(entries, sort_keys=False, default_flow_style=None, width=120)
    write_atomically(path, f"# Widths of the search {config.name}, for `edgemeta simulate train`\n{text}".encode())


def _rule(config: SearchConfig, network: BitNetwork, bits: Bits, layer: str) -> dict[str, Any]:
    width, read = bits.weights[layer], network.maps.of_layer[layer]
    weight: dict[str, Any] = {"kind": "power_of_two", "bits": width}
    if config.scheme == "fixed":
        per_channel = layer not in network.scores
        weight = {"kind": "int", "bits": width, "symmetric": True, "per_channel": per_channel}
        weight["observer"] = _observer(width, "min_max")
    rule: dict[str, Any] = {"layers": layer.replace(".", "/"), "weight": weight}
    if read != INPUT:
        observer = _observer(bits.maps[read], "moving_average")
        rule["activation"] = {"kind": "int", "bits": bits.maps[read], "signed": False, "observer": observer}
    return rule


def _observer(bits: int, of_many: ObserverName) -> ObserverName:
    return "mean_squared_error" if bits <= _FEW_BITS else of_many
