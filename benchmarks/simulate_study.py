r"""Training under number formats on CIFAR-10: accuracy by epoch of ResNet-8 and ResNet-20, beside float32.

    python benchmarks/simulate_study.py --data cifar10 --test cifar10 --folder RUNS --keep

FlexFP8, with a fixed bias and with shared exponents, is trained with stochastic rounding, as the paper has it, and
rounded to nearest.

Each run (network, format, seed) has its folder below RUNS with checkpoint, log and curves; a run that was begun is
continued, a finished one is read, so the study can be stopped at any time. After each run the results of its network
so far are written: simulate-study-resnet8.json, .md and a plot, .png, into RUNS, or with --keep into
benchmarks/results, the plot into docs/images. What an earlier command with the same options wrote there stays, so the
seeds can be trained one after the other, on different days or machines, without their run folders; two commands that
write into one folder at the same time would lose each other's results. A short form, to see that it works:

    python benchmarks/simulate_study.py --data train.npz --test test.npz --folder RUNS --images 400 --epochs 2 \
        --seeds 1 --depth 8
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.result_file import PLOTS, RESULTS, GrowingResult, part_of
from benchmarks.simulate_time import FORMATS
from edgemeta.toolchain.charts import LineChart, Series
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Split, load_dataset
from edgemeta.toolchain.number_formats.rounding import Rounding
from edgemeta.toolchain.simulate.training.config import TrainingConfig
from edgemeta.toolchain.simulate.training.page import finished_epochs
from edgemeta.toolchain.simulate.training.train import train_simulated

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
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results and docs/images")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    data, test = sets(chosen.data, chosen.test, chosen.images, chosen.folder)
    results, plots = (RESULTS, PLOTS) if chosen.keep else (chosen.folder, chosen.folder)
    options = f"--epochs {chosen.epochs} --batch {chosen.batch} --lr {chosen.lr:g}"
    options += f" --images {chosen.images}" if chosen.images else ""
    runs = [Run(depth, form, seed) for seed in chosen.seeds for depth in chosen.depth for form in chosen.formats]
    for number, run in enumerate(runs, 1):
        folder = run.folder(chosen.folder)
        config = run.config(chosen.epochs, chosen.batch, chosen.lr)
        done = train_simulated(config, data, test, folder, threads=chosen.threads, report=lambda _: None)
        print(
            f"{number} of {len(runs)}: resnet{run.depth}, {run.format}, seed {run.seed}: {done.accuracy:.2f} %",
            flush=True,
        )
        files = result_files(results, run.depth, chosen.images, options)
        add(files, result_of(run, chosen.folder))
        chart(run.depth, results_of(files.runs())).save_png(plots / f"{files.name}.png")


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


@dataclass(frozen=True)
class Result:
    """What a finished training gave: by epoch the accuracy of the test images in percent, and the mean loss."""

    format: str
    seed: int
    accuracy: list[float]
    loss: list[float]


def result_of(run: Run, root: Path) -> Result:
    """Read a finished run."""
    epochs = finished_epochs(run.folder(root) / "log.jsonl")
    accuracy = [event.accuracy for event in epochs if event.accuracy is not None]
    loss = [round(event.loss, 4) for event in epochs if event.loss is not None]
    return Result(run.format, run.seed, accuracy, loss)


def result_files(folder: Path, depth: int, images: int | None, options: str) -> GrowingResult:
    """Of a network's trainings with the same options. images: of the training set, None: all."""
    sets = "--data TRAIN --test TEST --folder RUNS"
    return GrowingResult(
        f"simulate-study-resnet{depth}{part_of(images)}",
        f"python benchmarks/simulate_study.py {sets} --depth {depth} {options}",
        folder,
        {},
        ("format", "seed"),
        lambda entry: (list(STUDY).index(entry["format"]), entry["seed"]),
    )


def add(files: GrowingResult, result: Result) -> None:
    """Write the files with one more training."""
    values = {"loss_scale": LOSS_SCALE, "formats": FORMATS}
    files.add(asdict(result), values, lambda entries: "\n".join(table(results_of(entries))))


def results_of(entries: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Of a result file."""
    return [Result(each["format"], each["seed"], each["accuracy"], each["loss"]) for each in entries]


def table(results: list[Result]) -> Iterator[str]:
    """Markdown: accuracy after the last epoch, of each seed and on average, and its distance from float32.

    The distance is that of the seeds which both have.
    """
    yield "| format | seeds | accuracy after the last epoch, % | mean | less than float32 |"
    yield "|---|---|---|---|---|"
    finals: dict[str, dict[int, float]] = {}
    for result in results:
        finals.setdefault(result.format, {})[result.seed] = result.accuracy[-1]
    for form, by_seed in finals.items():
        float32 = finals.get("float32", {})
        losses = [float32[seed] - accuracy for seed, accuracy in by_seed.items() if seed in float32]
        less = f"{mean(losses):.2f}" if losses else ""
        seeds, each = ", ".join(map(str, by_seed)), ", ".join(f"{value:.2f}" for value in by_seed.values())
        yield f"| {form} | {seeds} | {each} | {mean(by_seed.values()):.2f} | {less} |"


def chart(depth: int, results: list[Result]) -> LineChart:
    """Accuracy by epoch of each format, the mean of its seeds."""
    curves: dict[str, list[list[float]]] = {}
    for result in results:
        curves.setdefault(result.format, []).append(result.accuracy)
    lines = [
        Series(form, [(epoch, mean(values)) for epoch, values in enumerate(zip(*seeds, strict=True), 1)])
        for form, seeds in curves.items()
    ]
    return LineChart(f"ResNet-{depth} on CIFAR-10: top-1 of the test images", "epoch", "top-1, %", lines)


if __name__ == "__main__":
    main()
