r"""Widths of ResNet-20's layers under the four budgets of Kim, Hong and Shin: searched, trained, in integers, measured.

    python benchmarks/layer_widths.py --network benchmarks/models/resnet20-cifar10-float.safetensors --data cifar10 \
        --test cifar10 --folder RUNS

For each budget `edgemeta search` finds the widths, `simulate train` trains the network on at these widths, and
`simulate export` makes the model file, whose integers are measured on the test images. Beside it, trained in the same
way, one width everywhere. Feature maps have 8 bits. Cost: the least time of an image on this machine, one thread, and
with --arm the instructions of an image on an emulated Cortex-A57, both beside the form of 8 bits everywhere.

Each network has its folder below RUNS. What was begun is continued and what is done is read, so the program can be
stopped at any time. After each network table and plot are written: layer-widths-NAME.json, .md and .png, into RUNS, or
with --keep into benchmarks/results, the plot into docs/images. What an earlier command for the same float network,
epochs and trials wrote there stays, so budgets and widths can be done one after the other, on different days, without
their run folders; two commands that write into one folder at the same time would lose each other's results. A short
form, to see that it works:

    python benchmarks/layer_widths.py --network resnet8-cifar10-float --data train.npz --test test.npz --folder RUNS \
        --images 400 --epochs 1 --trials 3 --budgets 10 --uniform 8
"""

import argparse
import hashlib
import json
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.result_file import PLOTS, RESULTS, GrowingResult, part_of
from benchmarks.simulate_study import sets
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.measure import bench
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.charts import LineChart, Series
from edgemeta.toolchain.data.labelled_images import open_images
from edgemeta.toolchain.evaluate.classification import evaluate_float
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.evaluator import SearchSetup, prepare
from edgemeta.toolchain.search.objective import Costs
from edgemeta.toolchain.search.result import best, outcomes
from edgemeta.toolchain.search.run import search
from edgemeta.toolchain.search.training_file import FILE, training_config
from edgemeta.toolchain.simulate.training.exported import export_run
from edgemeta.toolchain.simulate.training.train import train_simulated
from rig.arm.instructions import instructions_per_image
from rig.arm.machines import MACHINES

NAME = "layer-widths"
PAPER = {15.99: 1.08, 10.63: 0.96, 8.0: 0.91, 5.33: 0.55}
"""Kim, Hong and Shin: times smaller, and points lost, of a ResNet-20 with 91.93 % on the published images."""
_JUDGED = 2000


@dataclass(frozen=True)
class Run:
    """A network: the widths found for a budget, or one width everywhere. times: smaller than float32, at least."""

    folder: Path
    times: float | None
    width: int | None

    @property
    def title(self) -> str:
        """For the table."""
        return f"searched, {self.times:g} times smaller" if self.width is None else f"{self.width} bits everywhere"


def main() -> None:
    """Search, train and measure what is missing, and write what there is."""
    chosen = arguments()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    data, test = sets(chosen.data, chosen.test, chosen.images, chosen.folder)
    float_model = load_float_model(find(chosen.network))
    images = open_images(test, float_model.labels, print)
    floating = 100 * evaluate_float(float_model, images, lambda _done, _total: None).top1
    digest = hashlib.sha256(find(chosen.network).read_bytes()).hexdigest()
    results, plots = (RESULTS, PLOTS) if chosen.keep else (chosen.folder, chosen.folder)
    files = result_files(results, float_model.name, digest, chosen.images, options_of(chosen))
    runs = [Run(chosen.folder / f"budget-{times:g}", times, None) for times in chosen.budgets]
    runs += [Run(chosen.folder / f"uniform-{width}", None, width) for width in chosen.uniform]
    setup = prepare(config_of(runs[0], chosen, data), print)
    int8 = costs(setup.network.build(setup.network.uniform(8, 8)), chosen.arm)
    for run in runs:
        row = {"network": run.title, **figures(run, chosen, setup, data, test), "int8_cost": int8}
        row |= {f"{key}_of_int8": round(cost / int8[key], 3) for key, cost in row["cost"].items()}
        row["lost"] = round(floating - row["accuracy"], 4)
        print(row, flush=True)
        add(files, floating, row)
        chart(files.runs()).save_png(plots / f"{files.name}.png")


def options_of(chosen: argparse.Namespace) -> str:
    """What all networks of a result file have in common."""
    start = Path(chosen.network)
    of = f"--network {start.name if start.suffix else start} --epochs {chosen.epochs} --trials {chosen.trials}"
    return of + (f" --images {chosen.images}" if chosen.images else "") + (" --arm" if chosen.arm else "")


def result_files(folder: Path, model: str, digest: str, images: int | None, options: str) -> GrowingResult:
    """Of a float network's runs. model, digest: name and SHA-256 of its file. images: to train with, None: all."""
    return GrowingResult(
        f"{NAME}-{model}{part_of(images)}",
        f"python benchmarks/layer_widths.py --data TRAIN --test TEST --folder RUNS {options}",
        folder,
        {"float_sha256": digest},
        ("network",),
        lambda row: (not row["found_by"], -row["times_smaller"]),
    )


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", required=True, help="trained float network: a file or a shipped name")
    parser.add_argument("--data", type=Path, required=True, help="training images")
    parser.add_argument("--test", type=Path, required=True, help="test images")
    parser.add_argument("--folder", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--budgets", type=float, nargs="+", default=[15.9, 10.6, 8.0, 5.33], help="times smaller")
    parser.add_argument("--uniform", type=int, nargs="*", default=[2, 3, 4, 6, 8], help="widths that are everywhere")
    parser.add_argument("--trials", type=int, default=100, help="of each search")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--images", type=int, help="use so many training images, and half as many test images")
    parser.add_argument("--arm", action="store_true", help="count instructions on emulated processors, too")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    return parser.parse_args()


def config_of(run: Run, chosen: argparse.Namespace, data: Path) -> SearchConfig:
    """The search of a budget: the most accurate weights within it, feature maps of 8 bits."""
    judged = min(_JUDGED, (chosen.images or 10 * _JUDGED) // 10)
    entries = {
        "name": run.folder.name,
        "network": chosen.network,
        "data": str(data),
        "scheme": "fixed",
        "features": [8],
        "images": judged,
        "rungs": [judged // 4, judged // 2],
        "sensitivity": judged // 4,
        "times_smaller": run.times,
        "objective": {"alpha": 10, "beta": 0, "gamma": 0},
        "trials": chosen.trials,
    }
    return SearchConfig.model_validate(entries)


def figures(run: Run, chosen: argparse.Namespace, setup: SearchSetup, data: Path, test: Path) -> dict[str, Any]:
    """Of a network, once for its settings: widths, bytes, accuracy of its integers, cost of an image."""
    run.folder.mkdir(parents=True, exist_ok=True)
    config, network = config_of(run, chosen, data), setup.network
    bits, found_by = network.uniform(run.width or 8, 8), None
    if run.width is None:
        outcome = best(outcomes(search(config, run.folder).trials))
        bits, found_by = outcome.bits, outcome.found_by
    training = training_config(config, network, bits) | {"epochs": chosen.epochs}
    training["warmup_epochs"] = min(training["warmup_epochs"], chosen.epochs / 4)
    text = yaml.safe_dump(training, sort_keys=False)
    path, known = run.folder / FILE, run.folder / "figures.json"
    settings = hashlib.sha256(f"{text}{chosen.images}{chosen.arm}".encode()).hexdigest()
    if known.exists() and (found := json.loads(known.read_text()))["settings"] == settings:
        return dict(found)
    path.write_text(text)
    folder = run.folder / "run"
    train_simulated(path, data, test, folder, threads=chosen.threads, report=lambda _: None)
    exported = export_run(path, data, test, folder, run.folder / "trained.safetensors")
    sizes = Costs(network).of(bits)
    result = {
        "settings": settings,
        "found_by": found_by,
        "weights": dict(bits.weights),
        "packed_bytes": sizes.packed_bytes,
        "times_smaller": round(Costs(network).float_bytes / sizes.packed_bytes, 2),
        "accuracy": round(exported.accuracy, 4),
        "simulated": exported.simulated,
        "cost": costs(load(exported.path), chosen.arm),
    }
    write_atomically(known, json.dumps(result, indent=2).encode())
    return result


def costs(model: Model, arm: bool) -> dict[str, float]:
    """Microseconds of an image here, the least of many, and instructions on an emulated processor."""
    with closing(choose("cpu").compile(model, {})) as session:
        found = {"microseconds": bench(session, model, 500, 0, lambda _done, _total: None).min_us}
    if arm:
        found["instructions"] = round(instructions_per_image(MACHINES[0], model))
    return found


def add(files: GrowingResult, floating: float, row: dict[str, Any]) -> None:
    """Write the files with one more network. floating: top-1 of the float network in percent."""
    files.add(row, {"float_accuracy": round(floating, 4)}, lambda rows: table(floating, rows))


def table(floating: float, rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    head = ["network", "found by", "kB of weights", "times smaller", "top-1 %", "lost"]
    head += ["time of int8", "instructions of int8"]
    lines = [f"Float network: {floating:.2f} %.", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        sizes = f"{row['packed_bytes'] / 1000:.1f} | {row['times_smaller']}"
        cost = f"{row['microseconds_of_int8']} | {row.get('instructions_of_int8', '')}"
        accuracy = f"{row['accuracy']:.2f} | {row['lost']:.2f}"
        lines.append(f"| {row['network']} | {row['found_by'] or ''} | {sizes} | {accuracy} | {cost} |")
    return "\n".join(lines)


def chart(rows: list[dict[str, Any]]) -> LineChart:
    """Points lost by how many times smaller the weights are."""
    searched = sorted((row["times_smaller"], row["lost"]) for row in rows if row["found_by"])
    uniform = sorted((row["times_smaller"], row["lost"]) for row in rows if not row["found_by"])
    lines = [Series("searched", searched), Series("one width everywhere", uniform)]
    lines = [each for each in lines if each.points] + [Series("Kim, Hong and Shin", sorted(PAPER.items()))]
    title = "Accuracy lost against float32"
    return LineChart(title, "times smaller than float32 weights", "lost, points of top-1", lines)


if __name__ == "__main__":
    main()
