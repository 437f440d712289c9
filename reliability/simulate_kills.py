"""kill -9 of a worker of a simulated training, at a random moment; resumed, the run must end as an undisturbed one.

    python reliability/simulate_kills.py --keep               writes benchmarks/results/simulate-kills.json

A small network learns generated pictures under integer rules, as one, two or four workers. They run the
command as torchrun starts it, but are forked from a process that has imported PyTorch: starting takes most of the time
otherwise. Each time a worker, chosen at random, is killed at a moment that is chosen at random: after some epochs and
a part of an epoch's time. The others are then ended as torchrun does it. The same command is given again, and the
SHA-256 of all weights and buffers is compared with the undisturbed run's; the log must have every epoch once. A moment
after the end of the run kills nobody: it is drawn again.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from benchmarks.result_file import write_json
from edgemeta.cli.main import main as main_of_edgemeta
from edgemeta.toolchain.progress import read_log
from rig.waiting import free_port

WORKERS = (1, 2, 2, 4)
EPOCHS = 3
CONFIG = f"""\
network: {{depth: 8, width: 0.25}}
epochs: {EPOCHS}
batch: 16
loss_scale: dynamic
rules:
  - {{layers: "*", activation: int8, weight: int8_per_channel, gradient: flexfp8_e5m2_shared}}
"""
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["edgemeta.toolchain.simulate.training.run", "edgemeta.cli.simulating"])
_LONGEST = 300
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Kill:
    """What became of one killed run.

    worker: the killed one, of `workers`. seconds: from the start to the kill. epochs: in the log at
    that moment. same_weights, whole_log: of the resumed run.
    """

    workers: int
    worker: int
    seconds: float
    epochs: int
    same_weights: bool
    whole_log: bool


def main() -> None:
    """Kill, resume, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/simulate-kills.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills = killed(Path(folder), arguments.kills, arguments.seed, WORKERS)
    values = {"kills": len(kills), "other_weights": sum(not kill.same_weights for kill in kills)}
    values |= {"broken_logs": sum(not kill.whole_log for kill in kills)}
    print(json.dumps(values))
    if arguments.keep:
        command = f"python reliability/simulate_kills.py --kills {arguments.kills} --seed {arguments.seed} --keep"
        write_json("simulate-kills", command, {**values, "runs": [asdict(kill) for kill in kills]})
    if values["other_weights"] or values["broken_logs"]:
        sys.exit("a resumed run ended otherwise than the undisturbed one")


def killed(folder: Path, kills: int, seed: int, workers: tuple[int, ...]) -> list[Kill]:
    """Kill so many runs, of these numbers of workers in turn; prints each."""
    make_data(folder)
    chance = random.Random(seed)
    undisturbed = {count: whole_run(folder, count) for count in sorted(set(workers))}
    done: list[Kill] = []
    tries = itertools.count()
    while len(done) < kills:
        count = workers[len(done) % len(workers)]
        kill = one_kill(folder / f"killed-{next(tries)}", count, *undisturbed[count], chance)
        if kill is not None:
            done.append(kill)
            print(json.dumps(asdict(kill)), flush=True)
    return done


def make_data(folder: Path) -> None:
    """Noisy pictures that are red, green or blue, and the config, in `folder`."""
    chance = np.random.default_rng(1)
    for name, count in (("train", 64), ("test", 15)):
        y = np.arange(count) % 3
        pixels = np.eye(3)[y][:, None, None] * 80 + chance.normal(90, 50, (count, 24, 24, 3))
        x = pixels.clip(0, 255).astype(np.uint8)
        np.savez(folder / f"{name}.npz", x=x, y=y, labels=np.array(["red", "green", "blue"]))
    (folder / "config.yaml").write_text(CONFIG, "utf-8")


def whole_run(folder: Path, workers: int) -> tuple[str, float]:
    """The digest of an undisturbed run, and the seconds of an epoch."""
    run = folder / f"whole-{workers}"
    digest = finished(run, workers)
    return digest, read_log(run / "log.jsonl")[-1].seconds / EPOCHS


def one_kill(run: Path, workers: int, digest: str, epoch: float, chance: random.Random) -> Kill | None:
    """Kill a worker of a run and resume it; None if the run ended before. epoch: seconds that one takes."""
    moment, worker = chance.uniform(0, EPOCHS), chance.randrange(workers)
    processes = started(run, workers)
    begin = time.monotonic()
    while processes[worker].is_alive() and len(epochs_logged(run)) < int(moment):
        time.sleep(0.05)
    processes[worker].join(moment % 1 * epoch)
    processes[worker].kill()
    seconds = time.monotonic() - begin
    for process in (processes[worker], *processes):
        process.terminate()
        process.join(_LONGEST)
    if processes[worker].exitcode != -signal.SIGKILL:  # it had ended
        return None
    kept = epochs_logged(run)
    found = finished(run, workers)
    whole_log = epochs_logged(run) == list(range(1, EPOCHS + 1))
    return Kill(workers, worker, round(seconds, 2), len(kept), found == digest, whole_log)


def finished(run: Path, workers: int) -> str:
    """The digest that a run prints, which must succeed."""
    for process in started(run, workers):
        process.join(_LONGEST)
        if process.exitcode != 0:
            raise RuntimeError(f"{run}: a worker ended with status {process.exitcode}")
    digest: str = json.loads(printed(run).read_text("utf-8"))["sha256"]
    return digest


def started(run: Path, workers: int) -> list[BaseProcess]:
    """Start the workers."""
    port = free_port()
    processes = [_FORKS.Process(target=work, args=(run, rank, workers, port)) for rank in range(workers)]
    for process in processes:
        process.start()
    return list(processes)


def work(run: Path, rank: int, workers: int, port: int) -> None:
    """Run the command as one of the workers; what the first one prints goes into a file."""
    places = {"RANK": rank, "WORLD_SIZE": workers, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in places.items()} | {"GLOO_SOCKET_IFNAME": "lo"}
    folder = run.parent
    training = ["--config", folder / "config.yaml", "--data", folder / "train.npz", "--test", folder / "test.npz"]
    sys.argv = ["edgemeta", "simulate", "train", *map(str, (*training, "--folder", run)), "--threads", "1", "--json"]
    if rank == 0:
        sys.stdout = printed(run).open("w", encoding="utf-8")
    main_of_edgemeta()


def printed(run: Path) -> Path:
    """The file with what a run prints."""
    return run.with_name(f"{run.name}.json")


def epochs_logged(run: Path) -> list[int]:
    """Numbers of the epochs in the log, in its order."""
    return [event.epoch for event in read_log(run / "log.jsonl")]


if __name__ == "__main__":
    main()
