r"""What error-first freezing and annealing are worth: incremental quantization with each rule, beside float.

    python benchmarks/power_of_two.py --data train.npz --folder RUNS --keep

Nothing but bits, rule, annealing and seed differs between runs: all start from one converged float network, see the
same views in the same order for a seed, and are retrained for the same epochs with the same loss. "float" is that
network retrained for these epochs with nothing frozen, so that what the epochs alone are worth is not credited to a
rule. Figures are of the training images that are held out, with activations in floating point.

Each run has its folder below RUNS; a run that was begun is continued, a finished one is read, so the study can be
stopped at any time. After each run the results so far are written, power-of-two.json, .md and .png, into RUNS, or with
--keep into benchmarks/results. A short form, to see that it works:

    python benchmarks/power_of_two.py --data train.npz --folder RUNS --images 400 --epochs 1 --seeds 1 --bits 5
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

from benchmarks.result_file import RESULTS, write_json, write_markdown
from edgemeta.model.zoo import find
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.incremental.freezing import RULES, Rule
from edgemeta.toolchain.incremental.settings import PAPER_SHARES, IncrementalSettings
from edgemeta.toolchain.line_chart import LineChart, Series
from edgemeta.toolchain.train.run_folder import opened_run

if TYPE_CHECKING:
    from edgemeta.toolchain.data.dataset import Dataset
    from edgemeta.toolchain.float_model.graph import FloatModel

NAME = "power-of-two"
HEAT = 1.0


@dataclass(frozen=True)
class Run:
    """One retraining. bits: None: nothing is frozen."""

    seed: int
    bits: int | None = None
    rule: Rule = "error"
    annealed: bool = False

    @property
    def method(self) -> str:
        """Name of what differs besides bits and seed."""
        if self.bits is None:
            return "float"
        return f"{self.rule}{', annealed' if self.annealed else ''}"

    def folder(self, root: Path) -> Path:
        """Its place below the study's folder."""
        kind = "float" if self.bits is None else f"{self.bits}-bit/{self.method.replace(', ', '-')}"
        return root / kind / f"seed-{self.seed}"

    def settings(self, epochs: int) -> IncrementalSettings:
        """Its settings, with so many epochs in each step."""
        if self.bits is None:
            return IncrementalSettings(shares=(0.0,) * len(PAPER_SHARES), heat=0.0, epochs=epochs, seed=self.seed)
        heat = HEAT if self.annealed else 0.0
        return IncrementalSettings(self.bits, rule=self.rule, heat=heat, epochs=epochs, seed=self.seed)


def main() -> None:
    """Retrain what is missing, and write what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="training images")
    parser.add_argument("--folder", type=Path, required=True, help="folder for all runs")
    parser.add_argument("--float", dest="start", default="resnet8-cifar10-float", help="the converged float network")
    parser.add_argument("--images", type=int, help="use so many training images")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of each of the four steps")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--bits", type=int, nargs="+", default=[5, 4, 3], choices=(5, 4, 3))
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    chosen = parser.parse_args()
    import torch

    if chosen.threads is not None:
        torch.set_num_threads(chosen.threads)
    model = load_float_model(find(chosen.start))
    images = load_dataset(chosen.data, "train", labels=model.labels)
    if chosen.images is not None:
        images = images.balanced(chosen.images)
    options = f"--float {chosen.start} --epochs {chosen.epochs} --seeds {' '.join(map(str, chosen.seeds))}"
    options += f" --bits {' '.join(map(str, chosen.bits))}" + (f" --images {chosen.images}" if chosen.images else "")
    command = f"python benchmarks/power_of_two.py --data TRAIN --folder RUNS {options}"
    found: dict[Run, float] = {}
    runs = all_runs(chosen.seeds, chosen.bits)
    for number, run in enumerate(runs, 1):
        found[run] = accuracy_of(run, chosen.epochs, model, images, chosen.folder)
        bits = "" if run.bits is None else f"{run.bits} bits, "
        print(f"{number} of {len(runs)}: {bits}{run.method}, seed {run.seed}: {found[run]:.2f} %", flush=True)
        write(RESULTS if chosen.keep else chosen.folder, command, found)


def all_runs(seeds: list[int], bits: list[int]) -> list[Run]:
    """Seed by seed, so that a study that was stopped has whole comparisons."""
    return [
        run
        for seed in seeds
        for run in (
            Run(seed),
            *(Run(seed, each, rule, annealed) for each in bits for rule in RULES for annealed in (True, False)),
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


def write(folder: Path, command: str, found: Mapping[Run, float]) -> None:
    """Write all results so far."""
    rows = [
        {"bits": run.bits, "method": run.method, "seed": run.seed, "accuracy": accuracy}
        for run, accuracy in found.items()
    ]
    write_json(NAME, command, {"temperature": HEAT, "shares": PAPER_SHARES, "runs": rows}, folder)
    write_markdown(NAME, command, "\n".join(table(found)), folder)
    chart(found).save_png(folder / f"{NAME}.png")


def table(found: Mapping[Run, float]) -> Iterator[str]:
    """Markdown: mean and spread over the seeds, and the mean difference from float of the same seeds."""
    yield "| bits | first frozen | seeds | mean, % | standard deviation | less than float |"
    yield "|---|---|---|---|---|---|"
    floats = {run.seed: accuracy for run, accuracy in found.items() if run.bits is None}
    for (bits, method), values in grouped(found).items():
        spread = f"{stdev(values.values()):.2f}" if len(values) > 1 else ""
        less = f"{mean(floats[seed] - value for seed, value in values.items()):.2f}"
        yield f"| {bits or 32} | {method} | {len(values)} | {mean(values.values()):.2f} | {spread} | {less} |"


def grouped(found: Mapping[Run, float]) -> dict[tuple[int | None, str], dict[int, float]]:
    """(Bits, method) -> accuracy of each seed."""
    groups: dict[tuple[int | None, str], dict[int, float]] = {}
    for run, accuracy in found.items():
        groups.setdefault((run.bits, run.method), {})[run.seed] = accuracy
    return groups


def chart(found: Mapping[Run, float]) -> LineChart:
    """Mean accuracy by bits of each method; float as a level line."""
    groups = grouped(found)
    bits = sorted({run.bits for run in found if run.bits is not None}) or [5]
    lines = []
    for method in dict.fromkeys(run.method for run in found):
        means = [(each, mean(groups[each, method].values())) for each in bits if (each, method) in groups]
        if method == "float":
            means = [(each, mean(groups[None, method].values())) for each in bits]
        lines.append(Series(method, means))
    return LineChart("Powers of two: top-1 of images held out", "bits of a weight", "%", lines)


if __name__ == "__main__":
    main()
