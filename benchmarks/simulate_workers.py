"""Decisions of one, two and four data-parallel workers: how many quantized numbers differ, of how many.

    python benchmarks/simulate_workers.py --data cifar10       writes results/simulate-workers.json

ResNet-8 under several rules, with the parts of `edgemeta simulate train`: whole-batch norms, gradients added in the
workers' order. One worker makes some steps and keeps what every quantizer made. Two and four workers make the same
steps twice: once beginning each with the one worker's weights, which shows what the number of workers changes, and once
going their own way, which shows how the last bits of sums spread: a weight's gradient is a sum over the batch, which W
workers add in W parts. Ends with an error if a decision differs of steps that begin with equal weights.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from benchmarks.result_file import write_json
from benchmarks.simulate_time import FORMATS
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from edgemeta.toolchain.simulate.prepare import quantizers_of
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.simulate.training.run import shared_network, simulated_network
from edgemeta.toolchain.train.batches import network_input
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.student import nesterov
from edgemeta.toolchain.train.workers import Workers, joined_workers
from rig.waiting import free_port

WORKERS = (2, 4)
CHOSEN = ("Qint8, gradients too", "FlexFP8", "FlexFP8, shared exponents")
EQUAL, OWN = "each step from equal weights", "each run its own way"


def main() -> None:
    """Compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="training images")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--worker", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        work(chosen.worker, chosen.steps)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = load_dataset(chosen.data, "train", labels=CIFAR10_LABELS)
        order = np.random.default_rng(1).permutation(len(images))[: chosen.batch * chosen.steps]
        x = np.ascontiguousarray(images.x[order].transpose(0, 3, 1, 2)).reshape(chosen.steps, -1, 3, 32, 32)
        np.savez(folder / "batches.npz", x=x, y=images.y[order].reshape(chosen.steps, -1))
        started(folder, 1, chosen.steps)
        found = {f"{count} workers": total(started(folder, count, chosen.steps)) for count in WORKERS}
    print(json.dumps(found, indent=2))
    command = f"python benchmarks/simulate_workers.py --data IMAGES --steps {chosen.steps} --batch {chosen.batch}"
    write_json(
        "simulate-workers",
        command,
        {"network": "resnet8", "batch": chosen.batch, "steps": chosen.steps, "decisions": found},
    )
    if any(each["differ"] for counts in found.values() for name, each in counts.items() if name.endswith(EQUAL)):
        sys.exit("decisions differ in steps that begin with equal weights")


def total(outputs: list[str]) -> dict[str, Any]:
    """The sums of what all workers print, by format and way."""
    each = [json.loads(output) for output in outputs]
    sums = {}
    for name in each[0]:
        differ = [sum(numbers) for numbers in zip(*(one[name]["differ"] for one in each), strict=True)]
        decisions = sum(one[name]["decisions"] for one in each)
        sums[name] = {"decisions": decisions, "differ": sum(differ), "differ_by_step": differ}
    return sums


def started(folder: Path, count: int, steps: int) -> list[str]:
    """What the workers print. Raises CalledProcessError."""
    port = str(free_port())
    processes = []
    for rank in range(count):
        places = {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        command = [sys.executable, __file__, "--data", "none", "--steps", str(steps), "--worker", str(folder)]
        environment = os.environ | {**places, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    for process in processes:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return outputs


def work(folder: Path, steps: int) -> None:
    """One worker: alone it keeps what the quantizers make, of several it compares; prints the counts."""
    torch.set_num_threads(1)
    counts: dict[str, object] = {}
    with joined_workers() as workers:
        for number, form in enumerate(CHOSEN):
            place = folder / str(number)
            place.mkdir(exist_ok=True)
            if workers.count == 1:
                run(place, form, steps, workers, equal=False)
                continue
            counts[f"{form}, {EQUAL}"] = run(place, form, steps, workers, equal=True)
            counts[f"{form}, {OWN}"] = run(place, form, steps, workers, equal=False)
    print(json.dumps(counts))


def run(place: Path, form: str, steps: int, workers: Workers, *, equal: bool) -> dict[str, object]:
    """All steps of a network; equal: each begins with the one worker's weights."""
    config = TrainingConfig.model_validate({"epochs": 1, "lr": 0.05, "rules": [{"layers": "*", **FORMATS[form]}]})
    network: Any = simulated_network(config, Design(), None, workers)
    shared, optimizer = shared_network(network, workers), nesterov(network, config.lr, 0.9, 2e-4)
    made: list[tuple[str, torch.Tensor]] = []
    for (layer, role), quantizer in quantizers_of(network).items():
        quantizer.register_forward_hook(partial(_keep, made, f"{layer}-{role}"))
    decisions, differ = 0, []
    with np.load(place.parent / "batches.npz") as batches:
        xs, ys = batches["x"], torch.from_numpy(batches["y"].astype(np.int64))
    for step in range(steps):
        state = place / f"state-{step}.pt"
        if workers.count == 1:
            torch.save(network.state_dict(), state)
        elif equal:
            network.load_state_dict(torch.load(state, weights_only=True))
        made.clear()
        mine = workers.share(np.arange(len(ys[step])))
        logits = shared(network_input(xs[step][mine]))
        loss = functional.cross_entropy(logits, ys[step][mine], reduction="sum") / len(ys[step])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if workers.count == 1:
            _save(place, step, made)
        else:
            differ.append(_differing(place, step, made, workers))
            decisions += sum(tensor.numel() for _, tensor in made)
    return {"decisions": decisions, "differ": differ}


def _keep(made: list[tuple[str, Any]], name: str, _module: object, _inputs: object, y: torch.Tensor) -> None:
    made.append((name, y.detach().clone()))


def _save(folder: Path, step: int, made: list[tuple[str, Any]]) -> None:
    for name, tensor in made:
        np.save(folder / f"{step}-{name}.npy", tensor.contiguous().numpy())


def _differing(folder: Path, step: int, made: list[tuple[str, Any]], workers: Workers) -> int:
    """Numbers that are not the one worker's; of weights, which are whole, as of rows, which are dealt."""
    count = 0
    for name, tensor in made:
        expected = np.load(folder / f"{step}-{name}.npy", mmap_mode="r")
        whole = name.endswith("weight")
        count += int(
            (tensor.contiguous().numpy() != (expected if whole else expected[workers.rank :: workers.count])).sum()
        )
    return count


if __name__ == "__main__":
    main()
