r"""Training under number formats on CIFAR-10: accuracy by epoch of ResNet-8 and ResNet-20, beside float32.

    python benchmarks/simulate_study.py --data cifar10 --test cifar10 --folder RUNS --keep

FlexFP8, with a fixed bias and with shared exponents, is trained with stochastic rounding, as the paper has it, and
rounded to nearest.

Each run (network, format, seed) has its folder below RUNS with checkpoint, log and curves; a run that was begun is
continued, a finished one is read, so the study can be stopped at any time. After each run the results so far are
written: simulate-study.json, .md and a plot for each network, simulate-study-resnet8.png, into RUNS, or with --keep
into benchmarks/results. A short form, to see that it works:

    python benchmarks/simulate_study.py --data train.npz --test test.npz --folder RUNS --images 400 --epochs 2 \
        --seeds 1 --depth 8
"""

import argparse
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks.result_file import RESULTS, write_json, write_markdown
from benchmarks.simulate_time import FORMATS
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Split, load_dataset
from edgemeta.toolchain.line_chart import LineChart, Series
from edgemeta.toolchain.progress import Progress
from edgemeta.toolchain.simulate.rounding import Rounding
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.simulate.training.page import finished_epochs
from edgemeta.toolchain.simulate.training.train import train_simulated

NAME = "simulate-study"
LOSS_SCALE = 1024.0


@dataclass(frozen=True)
class Form:
    """What the trainings of the study differ in: the formats of all layers by role, loss scale, rounding."""

    formats: Mapping[str, str]
    loss_scale: float | None = None
    rounding: Rounding = "stochastic"


FLEX, SHARED = FORMATS["FlexFP8"], FORMATS["FlexFP8, shared exponents"]
STUDY = {name: Form(formats) for name, formats in FORMATS.items()} | {
    "FlexFP8, loss scaling": Form(FLEX, LOSS_SCALE),
    "FlexFP8, to nearest": Form(FLEX, rounding="nearest_even"),
    "FlexFP8, shared exponents, to nearest": Form(SHARED, rounding="nearest_even"),
}


@dataclass(frozen=True)
class Run:
    """One training."""

    depth: int
    format: str
    seed: int

    def folder(self, root: Path) -> Path:
        """Its place below the study's folder."""
        words = self.format.replace(",", "").replace(" ", "-").lower()
        return root / f"resnet{self.depth}" / words / f"seed-{self.seed}"

    def config(self, epochs: int, batch: int, lr: float) -> TrainingConfig:
        """Its config; but for rules, rounding, loss scale, depth and seed they are all the same."""
        form = STUDY[self.format]
        entries = {
            "network": {"depth": self.depth},
            "labels": CIFAR10_LABELS,
            "epochs": epochs,
            "batch": batch,
            "lr": lr,
            "warmup_epochs": min(2.0, epochs / 4),
            "seed": self.seed,
            "loss_scale": form.loss_scale,
            "rounding": {"training": form.rounding},
            "rules": [{"layers": "*", **form.formats}] if form.formats else [],
        }
        return TrainingConfig.model_validate(entries)


def main() -> None:
    """Train what is missing, and write what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="training images")
    parser.add_argument("--test", type=Path, required=True, help="test images")
    parser.add_argument("--folder", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--images", type=int, help="use so many training images, and half as many test images")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--depth", type=int, nargs="+", default=[8, 20], choices=(8, 14, 20))
    parser.add_argument("--formats", nargs="+", default=list(STUDY), choices=list(STUDY), metavar="NAME")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    data, test = sets(chosen.data, chosen.test, chosen.images, chosen.folder)
    results = RESULTS if chosen.keep else chosen.folder
    options = f"--epochs {chosen.epochs} --batch {chosen.batch} --lr {chosen.lr:g}"
    options += f" --seeds {' '.join(map(str, chosen.seeds))} --depth {' '.join(map(str, chosen.depth))}"
    options += f" --images {chosen.images}" if chosen.images else ""
    if chosen.formats != list(STUDY):
        options += f" --formats {shlex.join(chosen.formats)}"
    command = f"python benchmarks/simulate_study.py --data TRAIN --test TEST --folder RUNS {options}"
    runs = [Run(depth, form, seed) for seed in chosen.seeds for depth in chosen.depth for form in chosen.formats]
    for number, run in enumerate(runs, 1):
        folder = run.folder(chosen.folder)
        config = run.config(chosen.epochs, chosen.batch, chosen.lr)
        done = train_simulated(config, data, test, folder, threads=chosen.threads, report=lambda _: None)
        print(
            f"{number} of {len(runs)}: resnet{run.depth}, {run.format}, seed {run.seed}: {done.accuracy:.2f} %",
            flush=True,
        )
        write(results, command, {each: epochs_of(each, chosen.folder) for each in runs})


def sets(data: Path, test: Path, images: int | None, folder: Path) -> tuple[Path, Path]:
    """The data sets to use: those given, or files with some of their images, the same number of each class."""
    if images is None:
        return data, test
    splits: tuple[tuple[Path, Split, int], ...] = ((data, "train", images), (test, "test", images // 2))
    made = []
    for source, split, count in splits:
        part = load_dataset(source, split, labels=CIFAR10_LABELS).balanced(count)
        made.append(folder / f"{split}-{count}.npz")
        np.savez(made[-1], x=part.x, y=part.y, labels=np.array(part.labels))
    return made[0], made[1]


def epochs_of(run: Run, root: Path) -> list[Progress]:
    """The finished epochs of a run; none before it began."""
    return finished_epochs(run.folder(root) / "log.jsonl")


def write(folder: Path, command: str, found: dict[Run, list[Progress]]) -> None:
    """Write all results so far."""
    rows = [
        {
            "network": f"resnet{run.depth}",
            "format": run.format,
            "seed": run.seed,
            "accuracy": [event.accuracy for event in epochs],
            "loss": [None if event.loss is None else round(event.loss, 4) for event in epochs],
            "seconds_per_epoch": seconds_per_epoch(epochs),
        }
        for run, epochs in found.items()
        if epochs
    ]
    write_json(NAME, command, {"loss_scale": LOSS_SCALE, "formats": FORMATS, "runs": rows}, folder)
    write_markdown(NAME, command, "\n".join(table(found)), folder)
    for depth in dict.fromkeys(run.depth for run in found):
        chart(depth, found).save_png(folder / f"{NAME}-resnet{depth}.png")


def seconds_per_epoch(epochs: list[Progress]) -> float | None:
    """Median-like figure: the least time from one epoch's end to the next in one process; None without two."""
    times = [after.seconds - before.seconds for before, after in pairwise(epochs) if after.seconds > before.seconds]
    return round(min(times), 2) if times else None


def table(found: dict[Run, list[Progress]]) -> Iterator[str]:
    """Markdown: accuracy after the last epoch, of each seed and on average, and its distance from float32."""
    yield "| network | format | epochs | accuracy of each seed, % | mean | less than float32 |"
    yield "|---|---|---|---|---|---|"
    groups = dict.fromkeys((run.depth, run.format) for run in found)
    finals = {group: _finals(group, found) for group in groups}
    for (depth, form), values in finals.items():
        if not values:
            continue
        float32 = finals.get((depth, "float32"), [])
        less = f"{mean(float32) - mean(values):.2f}" if len(float32) == len(values) else ""
        epochs = max(len(epochs) for run, epochs in found.items() if (run.depth, run.format) == (depth, form))
        each = ", ".join(f"{value:.2f}" for value in values)
        yield f"| resnet{depth} | {form} | {epochs} | {each} | {mean(values):.2f} | {less} |"


def _finals(group: tuple[int, str], found: dict[Run, list[Progress]]) -> list[float]:
    mine = (epochs for run, epochs in found.items() if (run.depth, run.format) == group and epochs)
    return [accuracy for epochs in mine if (accuracy := epochs[-1].accuracy) is not None]


def chart(depth: int, found: dict[Run, list[Progress]]) -> LineChart:
    """Accuracy by epoch of each format, the mean of the seeds that have come so far."""
    lines = []
    for form in STUDY:
        runs = [epochs for run, epochs in found.items() if (run.depth, run.format) == (depth, form) and epochs]
        by_epoch: dict[int, list[float]] = {}
        for event in (event for epochs in runs for event in epochs):
            if event.accuracy is not None:
                by_epoch.setdefault(event.epoch, []).append(event.accuracy)
        points = [(epoch, mean(values)) for epoch, values in sorted(by_epoch.items()) if len(values) == len(runs)]
        if points:
            lines.append(Series(form, points))
    return LineChart(f"ResNet-{depth} on CIFAR-10: top-1 of the test images", "epoch", "%", lines)


if __name__ == "__main__":
    main()
