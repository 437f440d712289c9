r"""What error-first freezing, annealing and fitted exponents are worth: incremental quantization, beside float.

    python benchmarks/power_of_two.py --data train.npz --folder RUNS --keep

Nothing but bits, rule, annealing, exponents and seed differs between runs: all start from one converged float network,
see the same views in the same order for a seed, and are retrained for the same epochs with the same loss. "float" is
that network retrained for these epochs with nothing frozen, so that what the epochs alone are worth is not credited to
a rule. Figures are of the training images that are held out, with activations in floating point.

Each run has its folder below RUNS, by network; a run that was begun is continued, a finished one is read, so the study
can be stopped at any time. After each run the results of its network so far are written: power-of-two-NAME.json, .md
and a plot, .png, into RUNS, or with --keep into benchmarks/results, the plot into docs/images. What an earlier command
with the same network, images and epochs wrote there stays, so seeds, bits and methods can be run one after the other,
on different days or machines, without their run folders; two commands that write into one folder at the same time would
lose each other's results. A short form, to see that it works:

    python benchmarks/power_of_two.py --data train.npz --folder RUNS --images 400 --epochs 1 --seeds 1 --bits 5
"""

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from benchmarks.result_file import PLOTS, RESULTS, GrowingResult, part_of
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta.toolchain.charts import DotChart
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.incremental.freezing import RULES
from edgemeta.toolchain.incremental.settings import BITS, PAPER_SHARES, IncrementalSettings
from edgemeta.toolchain.quantize.exponents import ExponentChoice
from edgemeta.toolchain.train.run_folder import opened_run

if TYPE_CHECKING:
    from edgemeta.model.graph import FloatModel
    from edgemeta.toolchain.data.dataset import Dataset

NAME = "power-of-two"
HEAT = 1.0
_LARGEST = ", max exponents"
METHODS = (
    "float",
    *(f"{rule}{annealed}" for rule in RULES for annealed in (", annealed", "")),
    *(f"{papers}{_LARGEST}" for papers in ("error, annealed", "magnitude")),
)
"""What is frozen first, with annealing or without; of "float" nothing.

The exponents are those of least square error; in the last two, which are the paper's method and INQ, those up to the
layer's largest weight.
"""


@dataclass(frozen=True)
class Run:
    """One retraining by one of METHODS. bits: None for "float"."""

    seed: int
    bits: int | None = None
    method: str = "float"

    def folder(self, root: Path) -> Path:
        """Its place below the study's folder."""
        kind = "float" if self.bits is None else f"{self.bits}-bit/{self.method.replace(', ', '-').replace(' ', '-')}"
        return root / kind / f"seed-{self.seed}"

    def settings(self, epochs: int) -> IncrementalSettings:
        """Its settings, with so many epochs in each step."""
        if self.bits is None:
            return IncrementalSettings(shares=(0.0,) * len(PAPER_SHARES), heat=0.0, epochs=epochs, seed=self.seed)
        rule = next(each for each in RULES if self.method.startswith(each))
        heat = HEAT if ", annealed" in self.method else 0.0
        exponents: ExponentChoice = "max" if self.method.endswith(_LARGEST) else "mse"
        return IncrementalSettings(self.bits, rule=rule, exponents=exponents, heat=heat, epochs=epochs, seed=self.seed)


def main() -> None:
    """Retrain what is missing, and write what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="training images")
    parser.add_argument("--folder", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--float", dest="start", default="resnet8-cifar10-float", help="the converged float network")
    parser.add_argument("--images", type=int, help="use so many training images")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of each of the four steps")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--bits", type=int, nargs="+", default=[5, 4, 3], choices=BITS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="METHOD")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results and docs/images")
    chosen = parser.parse_args()
    import torch

    if chosen.threads is not None:
        torch.set_num_threads(chosen.threads)
    model = load_float_model(find(chosen.start))
    images = load_dataset(chosen.data, "train", labels=model.labels)
    if chosen.images is not None:
        images = images.balanced(chosen.images)
    digest = hashlib.sha256(find(chosen.start).read_bytes()).hexdigest()
    results = RESULTS if chosen.keep else chosen.folder
    files = result_files(results, model.name, digest, chosen.images, options_of(chosen))
    folder = chosen.folder / f"{model.name}{part_of(chosen.images)}"
    runs = all_runs(chosen.seeds, chosen.bits, chosen.methods)
    for number, run in enumerate(runs, 1):
        accuracy = accuracy_of(run, chosen.epochs, model, images, folder)
        bits = "" if run.bits is None else f"{run.bits} bits, "
        print(f"{number} of {len(runs)}: {bits}{run.method}, seed {run.seed}: {accuracy:.2f} %", flush=True)
        add(files, run, accuracy)
        chart(accuracies(files.runs())).save_png((PLOTS if chosen.keep else chosen.folder) / f"{files.name}.png")


def options_of(chosen: argparse.Namespace) -> str:
    """What all runs of a result file have in common."""
    start = Path(chosen.start)
    of = f"--float {start.name if start.suffix else start} --epochs {chosen.epochs}"
    return of + (f" --images {chosen.images}" if chosen.images else "")


def all_runs(seeds: Sequence[int], bits: Sequence[int], methods: Sequence[str] = METHODS) -> list[Run]:
    """Seed by seed, so that a study that was stopped has whole comparisons."""
    quantized = [method for method in methods if method != "float"]
    return [
        run
        for seed in seeds
        for run in (
            *([Run(seed)] if "float" in methods else []),
            *(Run(seed, each, method) for each in bits for method in quantized),
        )
    ]


def accuracy_of(run: Run, epochs: int, model: "FloatModel", images: "Dataset", root: Path) -> float:
    """Percent of the images held out after the last epoch; the run is continued first where it is not finished."""
    from edgemeta.toolchain.incremental.run import retrained

    folder = run.folder(root)
    with opened_run(folder, fresh=False, report=print):
        accuracy = retrained(model, run.settings(epochs), images, folder).accuracy
    assert accuracy is not None  # the last epoch is always measured
    return accuracy


def result_files(folder: Path, model: str, digest: str, images: int | None, options: str) -> GrowingResult:
    """Of a network's runs. model, digest: name and SHA-256 of its file. images: to retrain with, None: all."""
    return GrowingResult(
        f"{NAME}-{model}{part_of(images)}",
        f"python benchmarks/power_of_two.py --data TRAIN --folder RUNS {options}",
        folder,
        {"float_sha256": digest},
        ("seed", "bits", "method"),
        lambda entry: place(run_of(entry)),
    )


def add(files: GrowingResult, run: Run, accuracy: float) -> None:
    """Write the files with one more run."""
    values = {"temperature": HEAT, "shares": PAPER_SHARES}
    files.add({**asdict(run), "accuracy": accuracy}, values, lambda entries: "\n".join(table(accuracies(entries))))


def accuracies(entries: Sequence[Mapping[str, Any]]) -> dict[Run, float]:
    """Of each run, in percent."""
    return {run_of(entry): entry["accuracy"] for entry in entries}


def run_of(entry: Mapping[str, Any]) -> Run:
    """The run that an entry of the result file is about."""
    return Run(entry["seed"], entry["bits"], entry["method"])


def place(run: Run) -> tuple[int, int, int]:
    """Order in table and plot: float, then 5, 4 and 3 bits, each method by seed."""
    return -(run.bits or 32), METHODS.index(run.method), run.seed


def table(found: Mapping[Run, float]) -> Iterator[str]:
    """Markdown: mean and spread over the seeds, and the mean distance from float of the seeds that both have."""
    yield "| bits | first frozen | seeds | mean, % | standard deviation | less than float |"
    yield "|---|---|---|---|---|---|"
    floats = {run.seed: accuracy for run, accuracy in found.items() if run.bits is None}
    for (bits, method), values in grouped(found).items():
        spread = f"{stdev(values.values()):.2f}" if len(values) > 1 else ""
        losses = [floats[seed] - value for seed, value in values.items() if seed in floats]
        less = f"{mean(losses):.2f}" if losses else ""
        seeds = ", ".join(map(str, values))
        yield f"| {bits or 32} | {method} | {seeds} | {mean(values.values()):.2f} | {spread} | {less} |"


def grouped(found: Mapping[Run, float]) -> dict[tuple[int | None, str], dict[int, float]]:
    """(Bits, method) -> accuracy of each seed."""
    groups: dict[tuple[int | None, str], dict[int, float]] = {}
    for run, accuracy in found.items():
        groups.setdefault((run.bits, run.method), {})[run.seed] = accuracy
    return groups


def chart(found: Mapping[Run, float]) -> DotChart:
    """Accuracy of every seed, by bits and method."""
    rows = {
        method if bits is None else f"{bits} bits: {method}": list(values.values())
        for (bits, method), values in grouped(found).items()
    }
    return DotChart("Powers of two: top-1 of images held out, each seed, and the mean", "top-1, %", rows)


if __name__ == "__main__":
    main()
