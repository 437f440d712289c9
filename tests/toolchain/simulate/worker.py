"""One of several data-parallel workers: a step of training on its rows of a batch; writes what its quantizers made.

python worker.py FOLDER, started as torchrun does
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of
from edgemeta.toolchain.train.workers import Workers, joined_workers

ROWS = 16
RULES = {
    "seed": 3,
    "rules": [
        {"layers": "*", "activation": "int8", "weight": "int4_per_channel", "gradient": "flexfp8_e5m2_shared"},
        {"layers": "0", "activation": {"kind": "int", "bits": 8, "observer": "percentile", "percentile": 99}},
        {"layers": "2", "activation": {"kind": "int", "bits": 4, "observer": "mean_squared_error"}},
        {"layers": "2", "gradient": {"kind": "int", "bits": 8, "observer": "percentile"}},
        {"layers": "5", "activation": "flexfp8_e4m3_shared"},
    ],
}


def main() -> None:
    """Run the step and save the results by layer and role."""
    torch.set_num_threads(1)
    with joined_workers() as workers:
        torch.save(step(workers), Path(sys.argv[1]) / f"{workers.count}-{workers.rank}.pt")


def step(workers: Workers) -> tuple[dict[str, list[Any]], dict[str, Any]]:
    """What the quantizers made, by layer and role, and the gradients by parameter."""
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 4),
    )
    model: Any = prepare(network.to(memory_format=torch.channels_last), RULES)
    made: dict[str, list[Any]] = {}
    for place, quantizer in quantizers_of(model).items():
        tensors = made.setdefault("/".join(place), [])
        quantizer.register_forward_hook(partial(_keep, tensors))
    if workers.count > 1:
        model = DistributedDataParallel(model)
    x = torch.randn(ROWS, 3, 8, 8, generator=torch.Generator().manual_seed(2)).to(memory_format=torch.channels_last)
    mine = workers.share(np.arange(ROWS))
    loss = functional.cross_entropy(model(x[mine]), torch.from_numpy(mine % 4))
    loss.backward()
    return made, {name: parameter.grad for name, parameter in network.named_parameters()}


def _keep(tensors: list[Any], _module: object, _inputs: object, y: Any) -> None:
    tensors.append(y.detach().clone())


if __name__ == "__main__":
    main()
