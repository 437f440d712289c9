"""How well the shipped networks say that they do not know.

    python benchmarks/unknown.py --test PATH --clip PATH [--foreign NAME=FOLDER ...]

For each shipped network: the share of the clip's frames that get a label, preprocessed as the service does it; the
share of the test images that have a right label and lose it; the calibration error of the scores of those that keep
one; and that of all scores at temperature 1, without a rule. Threshold and temperature were fitted to images held out
of the training; neither the test images nor the clip took part in anything. Also whether logits and predicted classes
equal those without the rule. Prints a table, and writes results/unknown.json and .md.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find
from edgemeta.tasks.classification import scores
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frames
from edgemeta.toolchain.evaluate.confidence import calibration_error
from edgemeta.toolchain.reject.evidence import without_rejection
from edgemeta.toolchain.reject.reject import measure

NETWORKS = ("resnet8-cifar10", "resnet8-cifar10-paper")
EVERY = 1 << 30


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", type=Path, required=True, help="the 10,000 test images")
    parser.add_argument("--clip", type=Path, required=True, help="a clip that shows none of the labels")
    parser.add_argument("--foreign", type=Path, action="append", default=[], help="a folder of other foreign pictures")
    paths = parser.parse_args()
    test = load_dataset(paths.test, labels=CIFAR10_LABELS)
    foreign: list[Frames] = [ClipFrames(paths.clip, EVERY)]
    foreign += [FolderFrames(path, EVERY, print) for path in paths.foreign]
    measured = {name: of_network(load(find(name)), test, foreign) for name in NETWORKS}
    rows = [
        "| network | clip: frames with a label % | before % | right labels lost, points | calibration error % |"
        " without rule and temperature | logits as without the rule |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in measured.items():
        rows.append(
            f"| `{name}` | {100 * found['labelled'][paths.clip.name]:.2f} | 100 | {100 * found['lost']:.2f} | "
            f"{100 * found['calibration_error']:.2f} | {100 * found['plain_calibration_error']:.2f} | "
            f"{'yes' if found['same_logits'] else 'no'} |"
        )
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/unknown.py --test {paths.test.name} --clip {paths.clip.name}" + "".join(
        f" --foreign {path.parent.name}/{path.name}" for path in paths.foreign
    )
    write_json("unknown", command, {"test_images": len(test), "networks": measured})
    others = [
        f"`{name}`: of {source} {100 * share:.1f} % get a label."
        for name, found in measured.items()
        for source, share in found["labelled"].items()
        if source != paths.clip.name
    ]
    write_markdown("unknown", command, "\n\n".join([f"{len(test):,} test images.", table, *others]))


def of_network(model: Model, test: Dataset, foreign: list[Frames]) -> dict[str, Any]:
    """The figures of one network, shares 0..1."""
    task = model.task
    assert isinstance(task, Classification)
    assert task.rejection is not None
    found = measure(model, ArrayFrames(test.x))
    plain = measure(without_rejection(model), ArrayFrames(test.x))
    labelled, right = found.evidence >= task.rejection.threshold, found.logits.argmax(1) == test.y
    kind, stated = model.output_types[0], model.provenance["rejection"]
    assert isinstance(stated, dict)
    assert stated["held_out_pixels_sha256"] != test.sha256(), "the rule was fitted to the test images"
    shares = scores(found.logits, kind, task.temperature)
    return {
        "sha256": model.digest,
        "threshold": task.rejection.threshold,
        "temperature": task.temperature,
        "labelled": {
            Path(each.source).name: float((measure(model, each).evidence >= task.rejection.threshold).mean())
            for each in foreign
        },
        "lost": float((right & ~labelled).mean()),
        "calibration_error": calibration_error(shares[labelled], test.y[labelled]),
        "plain_calibration_error": calibration_error(scores(found.logits, kind), test.y),
        "same_logits": bool(np.array_equal(found.logits, plain.logits)),
    }


if __name__ == "__main__":
    main()
