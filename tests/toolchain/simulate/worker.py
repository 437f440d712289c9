"""One of several data-parallel workers: a step of training on its rows of a batch; writes what its quantizers made.

python worker.py FOLDER RANK WORKERS
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of

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
    folder, rank, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
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
    if workers > 1:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=workers)
        model = DistributedDataParallel(model)
    x = torch.randn(ROWS, 3, 8, 8, generator=torch.Generator().manual_seed(2)).to(memory_format=torch.channels_last)
    loss = functional.cross_entropy(model(x[rank::workers]), (torch.arange(ROWS) % 4)[rank::workers])
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    torch.save((made, gradients), folder / f"{workers}-{rank}.pt")
    if workers > 1:
        distributed.destroy_process_group()


def _keep(tensors: list[Any], _module: object, _inputs: object, y: Any) -> None:
    tensors.append(y.detach().clone())


if __name__ == "__main__":
    main()
