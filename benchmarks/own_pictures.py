"""Own pictures: `edgemeta train --data` and `edgemeta quantize` on a folder of pictures, measured on another.

    python benchmarks/own_pictures.py --data clothing/train --test clothing/validation --folder RUN

Trains by the function of the command, with its defaults; the test folder is only measured, after the training. A run
that was begun in the folder is continued, but then its time is not measured. Prints a table, and writes
results/own-pictures.json and results/own-pictures.md.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from benchmarks.result_file import write_json, write_markdown
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.graph import Conv, Dense
from edgemeta.toolchain.progress import Progress
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.labelled import Measured
from edgemeta.toolchain.quantize.quantize import LabelledFiles, QuantizeResult, quantize
from edgemeta.toolchain.train.designs import Wishes
from edgemeta.toolchain.train.own_pictures import PicturesResult, train_pictures


def main() -> None:
    """Train, quantize, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of pictures per class, to train on")
    parser.add_argument("--test", type=Path, required=True, help="folder of pictures per class, to measure on")
    parser.add_argument("--folder", type=Path, required=True, help="run folder, also for the models")
    parser.add_argument("--size", type=int, default=96, help="side of the network's input, pixels")
    parser.add_argument("--start", help="float model to start from, as for `edgemeta train`")
    parser.add_argument("--epochs", type=int, help="default: those of the command")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads of the training")
    parser.add_argument("--name", default="own-pictures", help="name of the result file")
    chosen = parser.parse_args()
    continued = (chosen.folder / "network.pt").exists()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    before, begin = os.times(), time.monotonic()
    trained = train_pictures(
        chosen.data,
        chosen.folder,
        chosen.folder / "float.safetensors",
        test=chosen.test,
        wishes=Wishes(size=chosen.size),
        start=chosen.start,
        epochs=chosen.epochs,
        threads=chosen.threads,
        progress=_show,
        report=_say,
    )
    after, end = os.times(), time.monotonic()
    cpu = after.user + after.system - before.user - before.system
    quantized = quantize(
        trained.path,
        chosen.folder / "model.safetensors",
        AutoScheme(Calibration(chosen.data)),
        labelled=LabelledFiles(trained.held_out, chosen.test),
    )
    seconds = None if continued else {"cpu": round(cpu), "elapsed": round(end - begin), "threads": chosen.threads}
    options = "".join(
        f" --{key} {value}"
        for key, value in (("start", chosen.start), ("epochs", chosen.epochs), ("name", chosen.name))
        if value is not None and value != parser.get_default(key)
    )
    places = f"--data {'/'.join(chosen.data.parts[-2:])} --test {'/'.join(chosen.test.parts[-2:])} --folder RUN"
    command = f"python benchmarks/own_pictures.py {places}{options}"
    values = _values(trained, quantized, seconds)
    write_json(chosen.name, command, values)
    write_markdown(chosen.name, command, _text(trained, quantized, seconds))
    print(_text(trained, quantized, seconds))


def _values(trained: PicturesResult, quantized: QuantizeResult, seconds: dict[str, int] | None) -> dict[str, object]:
    assert trained.test is not None
    assert isinstance(quantized.test, Measured)
    layers = [layer for layer in load_float_model(trained.path).layers if isinstance(layer, Conv | Dense)]
    return {
        "network": trained.network,
        "size": trained.size,
        "weights": sum(layer.weight.size for layer in layers),
        "epochs": trained.epochs,
        "best_epoch": trained.epoch,
        "training_seconds": seconds,
        "held_out": {"images": trained.validation.images, "top1": 100 * trained.validation.accuracy},
        "test": {
            "images": trained.test.images,
            "float_top1": 100 * trained.test.accuracy,
            "int8_top1": 100 * quantized.test.accuracy,
            "calibration_error": 100 * quantized.test.calibration_error,
        },
        "recall": {label: None if r is None else 100 * r for label, r in trained.test.recall().items()},
        "bytes": quantized.size,
        "sha256": quantized.sha256,
    }


def _text(trained: PicturesResult, quantized: QuantizeResult, seconds: dict[str, int] | None) -> str:
    assert trained.test is not None
    assert isinstance(quantized.test, Measured)
    took = "continued, not timed"
    if seconds is not None:
        took = f"{seconds['cpu'] / 60:.1f} minutes of CPU, {seconds['elapsed'] / 60:.1f} elapsed on "
        took += f"{seconds['threads']} threads"
    floating, integer = 100 * trained.test.accuracy, 100 * quantized.test.accuracy
    rows = [
        f"{trained.network}, {trained.size}x{trained.size}, {len(trained.test.labels)} classes; training: {took}.",
        "",
        "| what | figure |",
        "|---|---|",
        f"| best epoch, by the held-out tenth | {trained.epoch} of {trained.epochs} |",
        f"| held-out tenth, float top-1 | {100 * trained.validation.accuracy:.2f} % of {trained.validation.images} |",
        f"| test folder, float top-1 | {floating:.2f} % of {trained.test.images} |",
        f"| test folder, int8 top-1 | {integer:.2f} % |",
        f"| int8 less than float | {floating - integer:.2f} points |",
        f"| model file | {quantized.size:,} bytes |",
        "",
        "Recall of the test folder's classes, and the labels given (float):",
        "",
        "```",
        *trained.test.text(),
        "```",
    ]
    return "\n".join(rows)


def _show(event: Progress) -> None:
    if event.step == event.steps:
        accuracy = "" if event.accuracy is None else f", held out {event.accuracy:.1f} %"
        _say(f"epoch {event.epoch}/{event.epochs}: loss {event.loss:.3f}{accuracy}, {event.seconds:.0f} s")


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
