"""How far the scores of the shipped networks can be believed, and what a temperature would change.

    python benchmarks/confidence.py --test PATH --train PATH

The expected calibration error on the test images: as shipped, with the temperature fitted on images held out of the
training; at temperature 1; and at one fitted on training images, which the network has seen. It also gives the error
that chance would cause if every score were true. Scores are those of all images, as if the model had no rule of
rejection. Prints a table, and writes results/confidence.json and .md.
"""

import argparse
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.tasks.classification import logits_of, scores
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Dataset, load_dataset
from edgemeta.toolchain.evaluate.confidence import calibration_error, fit_temperature

NETWORKS = ("resnet8-cifar10", "resnet8-cifar10-paper")
TRAINING_IMAGES = 5000
DRAWS = 100


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", type=Path, required=True, help="labelled images that no network has seen")
    parser.add_argument("--train", type=Path, required=True, help="the training images")
    paths = parser.parse_args()
    test = load_dataset(paths.test, labels=CIFAR10_LABELS)
    train = load_dataset(paths.train, "train", labels=CIFAR10_LABELS).balanced(TRAINING_IMAGES)
    measured = {name: measure(load(find(name)), test, train) for name in NETWORKS}
    rows = ["| network | scores | temperature | calibration error % |", "|---|---|---|---|"]
    for name, ways in measured.items():
        for way, result in ways.items():
            rows.append(f"| `{name}` | {way} | {result['temperature']:g} | {100 * result['error']:.2f} |")
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/confidence.py --test {paths.test.name} --train {paths.train.name}"
    write_json("confidence", command, {"test_images": len(test), "networks": measured})
    heading = f"Expected calibration error (15 bins), {len(test):,} test images."
    write_markdown("confidence", command, f"{heading}\n\n{table}")


def measure(model: Model, test: Dataset, train: Dataset) -> dict[str, dict[str, float]]:
    """Calibration error 0..1 and temperature, by the way the temperature was found."""
    task, kind = model.task, model.output_types[0]
    assert isinstance(task, Classification)
    as_shipped = task.temperature
    logits, seen = integer_logits(model, test), integer_logits(model, train)
    temperatures = {
        "as shipped": as_shipped,
        "at temperature 1": 1.0,
        f"fitted on {len(train):,} training images": fit_temperature(seen, kind, train.y),
    }
    ways = {
        way: {"error": calibration_error(scores(logits, kind, temperature), test.y), "temperature": temperature}
        for way, temperature in temperatures.items()
    }
    by_chance = chance(scores(logits, kind, as_shipped))
    return ways | {"by chance alone": {"error": by_chance, "temperature": as_shipped}}


def chance(shares: NDArray[np.float64]) -> float:
    """The error that is measured on average where every score is true: the classes are drawn from the scores."""
    rng = np.random.default_rng(1)
    sums = shares.cumsum(1)
    drawn = [(rng.random((len(shares), 1)) > sums).sum(1).clip(0, shares.shape[1] - 1) for _ in range(DRAWS)]
    return float(np.mean([calibration_error(shares, classes) for classes in drawn]))


def integer_logits(model: Model, data: Dataset) -> NDArray[np.int32]:
    """Integer logits [N, labels] of the cpu backend, which equal the reference's."""
    images = look_up(model.preprocessing.table, data.x)
    with closing(choose("cpu").compile(model, {})) as session:
        return np.stack([logits_of(session.run(image[np.newaxis]))[0].copy() for image in images])


if __name__ == "__main__":
    main()
