"""Training under number formats beside peers that have them: QPyTorch and Brevitas.

    python benchmarks/simulate_peers.py

Needs `pip install qtorch brevitas`. ResNet-20, batch 128, random images, two threads, as in simulate_time.py; ours and
the peer's network take turns, step by step, in one process. QPyTorch rounds what every convolution and dense layer
reads, its weights, and the gradient of what it gives; Brevitas has no format for gradients. Prints a table, and writes
results/simulate-peers.json and .md.
"""

import argparse
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from benchmarks.result_file import write_json, write_markdown
from benchmarks.simulate_time import BATCH, THREADS, Run, rules, take_turns

FIXED = {"kind": "fixed", "bits": 8, "fraction": 5}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each network (default 20)")
    steps = parser.parse_args().steps
    torch.set_num_threads(THREADS)
    rows = [compared(*pair, steps) for pair in pairs()]
    lines = ["| formats | peer | ours, ms per step | peer's | ratio |", "|---|---|---:|---:|---:|"]
    for row in rows:
        lines.append("| " + " | ".join(str(value) for value in row.values()) + " |")
    table = "\n".join(lines)
    print(table)
    command = f"python benchmarks/simulate_peers.py --steps {steps}"
    versions = {name: version(name) for name in ("qtorch", "brevitas", "torch")}
    write_json("simulate-peers", command, {"versions": versions, "batch": BATCH, "threads": THREADS, "rows": rows})
    write_markdown("simulate-peers", command, f"{versions}; ratio: ours to the peer's time.\n\n{table}")


def pairs() -> list[tuple[str, str, Callable[[Any], object], Callable[[Any], object]]]:
    """Formats, the peer's name, and what puts a network under them: ours, the peer's."""
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
    from brevitas.quant.float import Fp8e4m3ActPerTensorFloat, Fp8e4m3WeightPerTensorFloat
    from qtorch import FixedPoint, FloatingPoint

    flexfp8 = {"activation": "flexfp8_e4m3", "weight": "flexfp8_e4m3", "gradient": "flexfp8_e5m2"}
    bfloat16 = dict.fromkeys(("activation", "weight", "gradient"), "bfloat16")
    fixed = dict.fromkeys(("activation", "weight", "gradient"), FIXED)
    int8 = {"activation": "int8", "weight": "int8_per_channel"}
    shared = {"activation": "flexfp8_e4m3_shared", "weight": "flexfp8_e4m3_shared"}
    brevitas8 = Fp8e4m3WeightPerTensorFloat, Fp8e4m3ActPerTensorFloat
    return [
        (
            *("FlexFP8 4, 3; gradient 5, 2; stochastic", "QPyTorch", rules(flexfp8)),
            qpytorch(FloatingPoint(4, 3), FloatingPoint(5, 2)),
        ),
        ("bfloat16, stochastic", "QPyTorch", rules(bfloat16), qpytorch(FloatingPoint(8, 7), FloatingPoint(8, 7))),
        ("fixed point 8 bits, stochastic", "QPyTorch", rules(fixed), qpytorch(FixedPoint(8, 5), FixedPoint(8, 5))),
        (
            *("int8, weights per channel, nearest", "Brevitas", rules(int8, "nearest_even")),
            brevitas(Int8WeightPerChannelFloat, Int8ActPerTensorFloat),
        ),
        ("fp8 e4m3, a scale per tensor, nearest", "Brevitas", rules(shared, "nearest_even"), brevitas(*brevitas8)),
    ]


def compared(
    formats: str, peer: str, ours: Callable[[Any], object], theirs: Callable[[Any], object], steps: int
) -> dict[str, Any]:
    """Milliseconds of a step, ours and the peer's, and their ratio."""
    times = take_turns({"ours": Run(ours), "theirs": Run(theirs)}, steps)
    return {
        "formats": formats,
        "peer": peer,
        "milliseconds": round(1000 * times["ours"], 1),
        "peer_milliseconds": round(1000 * times["theirs"], 1),
        "ratio": round(times["ours"] / times["theirs"], 2),
    }


def qpytorch(forward: Any, backward: Any) -> Callable[[Any], object]:
    """QPyTorch's quantizers at the places where `prepare` rounds."""
    from qtorch.quant import quantizer

    operand, gradient = quantizer(forward_number=forward), quantizer(backward_number=backward)

    class Rounded(nn.Module):
        def forward(self, weight: Any) -> Any:
            return operand(weight)

    def change(model: Any) -> None:
        for layer in [each for each in model.modules() if isinstance(each, nn.Conv2d | nn.Linear)]:
            parametrize.register_parametrization(layer, "weight", Rounded())
            layer.register_forward_pre_hook(lambda _, inputs: (operand(inputs[0]),))
            layer.register_forward_hook(lambda _module, _inputs, output: gradient(output))

    return change


def brevitas(weight: Any, activation: Any) -> Callable[[Any], object]:
    """Brevitas' layers in the place of PyTorch's."""
    from brevitas.nn import QuantConv2d, QuantLinear

    formats = {"weight_quant": weight, "input_quant": activation}

    def change(model: Any) -> None:
        for name, layer in list(model.named_children()):
            if isinstance(layer, nn.Conv2d):
                shape = layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding
                other = QuantConv2d(*shape, bias=False, **formats)
            elif isinstance(layer, nn.Linear):
                other = QuantLinear(layer.in_features, layer.out_features, bias=True, **formats)
            else:
                continue
            setattr(model, name, other.to(memory_format=torch.channels_last))

    return change


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning)
    main()
