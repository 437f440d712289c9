"""kill -9 of a worker of a simulated training, at a random moment; resumed, the run must end as an undisturbed one.

    python reliability/simulate_kills.py --keep               writes benchmarks/results/simulate-kills.json

A small network learns generated pictures under integer rules, as one, two and four workers of torchrun in turn. Each
time a worker, chosen at random, is killed at a moment that is chosen at random from when the workers exist to when the
undisturbed run ended; torchrun then ends the others. The same command is given again, and the SHA-256 of all weights
and buffers is compared with the undisturbed run's; the log must have every epoch once. A moment after the end of the
run kills nobody: it is drawn again.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_file import write_json

WORKERS = (1, 2, 4)
EPOCHS = 4
CONFIG = f"""\
network: {{depth: 8, width: 0.25}}
epochs: {EPOCHS}
batch: 16
loss_scale: dynamic
rules:
  - {{layers: "*", activation: int8, weight: int8_per_channel, gradient: flexfp8_e5m2_shared}}
"""
_LONGEST = 300
"""Seconds that a run may take."""


@dataclass(frozen=True)
class Kill:
    """What became of one killed run.

    worker: the killed one, of `workers`. seconds: from when the workers existed to the kill. epochs: in the checkpoint
    at that moment. same_weights, whole_log: of the resumed run.
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
    undisturbed = {count: whole_run(folder, count) for count in workers}
    done: list[Kill] = []
    while len(done) < kills:
        count = workers[len(done) % len(workers)]
        kill = one_kill(folder / f"killed-{len(done)}", count, *undisturbed[count], chance)
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
    """The digest of an undisturbed run, and its seconds from when the workers existed."""
    process = started(folder / f"whole-{workers}", workers)
    pids_of_workers(process, workers)
    begin = time.monotonic()
    return finished(process)["sha256"], time.monotonic() - begin


def one_kill(run: Path, workers: int, digest: str, seconds: float, chance: random.Random) -> Kill | None:
    """Kill a worker of a run and resume it; None if the run ended before."""
    after, worker = chance.uniform(0, seconds), chance.randrange(workers)
    process = started(run, workers)
    pids = pids_of_workers(process, workers)
    try:
        process.wait(after)
        return None
    except subprocess.TimeoutExpired:
        os.kill(pids[worker], signal.SIGKILL)
    process.communicate(timeout=_LONGEST)
    if process.returncode == 0:  # it was ending just then
        return None
    kept = epochs_logged(run)
    found = finished(started(run, workers))["sha256"]
    whole_log = epochs_logged(run) == list(range(1, EPOCHS + 1))
    return Kill(workers, worker, round(after, 2), len(kept), found == digest, whole_log)


def started(run: Path, workers: int) -> "subprocess.Popen[str]":
    """Start torchrun with the command, one thread for each worker."""
    folder, command = run.parent, Path(sys.executable).with_name("edgemeta")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    training = ["simulate", "train", "--config", folder / "config.yaml", "--data", folder / "train.npz"]
    ends = ["--test", folder / "test.npz", "--folder", run, "--threads", "1", "--json"]
    return subprocess.Popen(
        [*torchrun, "--no-python", str(command), *map(str, (*training, *ends))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )


def finished(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What a run that must succeed prints."""
    printed, errors = process.communicate(timeout=_LONGEST)
    if process.returncode != 0:
        raise RuntimeError(f"a run ended with status {process.returncode}: {errors}")
    result: dict[str, Any] = json.loads(printed)
    return result


def pids_of_workers(process: "subprocess.Popen[str]", workers: int) -> list[int]:
    """Process ids of torchrun's workers, as soon as all exist."""
    deadline = time.monotonic() + _LONGEST
    while time.monotonic() < deadline and process.poll() is None:
        pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()
        if len(pids) == workers:
            return [int(pid) for pid in pids]
        time.sleep(0.01)
    raise RuntimeError(f"torchrun did not start {workers} workers: {process.communicate()[1]}")


def epochs_logged(run: Path) -> list[int]:
    """Numbers of the epochs in the log, in its order."""
    log = run / "log.jsonl"
    return [json.loads(line)["epoch"] for line in log.read_text("utf-8").splitlines()] if log.exists() else []


if __name__ == "__main__":
    main()
