r"""A detector of a user's own pictures, by `edgemeta train`; writes results/own_detector.{json,md}.

    python benchmarks/own_detector.py --data FOLDER --start people-vehicles-animals --keep

FOLDER is that of docs/test-data.md, of which detection/gate_states.npz is used: 47 pictures of one camera, with boxes
of cars and of a car park's barrier, open and closed. A fixed third is held out, and only measured. Commands, with this
program's --epochs and --threads:

    edgemeta train --task detection --data own.npz --start MODEL --epochs N --quantized-epochs 0 --folder run \
        --out own-float.safetensors
    edgemeta quantize own-float.safetensors --calibrate own.npz --test run/validation.npz --out own.safetensors
    edgemeta eval own.safetensors --data third.npz

--folder keeps what they make; a training that was interrupted goes on there. --keep: write into benchmarks/results,
otherwise only print.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, run
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown

COMMAND = "python benchmarks/own_detector.py --data FOLDER --start people-vehicles-animals --keep"
GOAL, MINUTES = 70.0, 20.0
"""mAP50 in percent, and the minutes on two cores in which it is to be reached."""
SEED = 40
_OF_BOXES = ("boxes", "box_label", "difficult")
_OF_PICTURES = ("labelled", "source", "name")


def main() -> None:
    """Train, quantize, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the test data")
    parser.add_argument("--start", default="people-vehicles-animals", help="model whose weights are the first ones")
    parser.add_argument("--epochs", type=int, default=100, help="of the training")
    parser.add_argument("--threads", type=int, default=1, help="of the training")
    parser.add_argument("--folder", type=Path, help="folder for what is made")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    archive = arguments.data / "detection" / "gate_states.npz"
    with TemporaryDirectory() as folder:
        values = measured(
            archive, arguments.start, arguments.epochs, arguments.threads, arguments.folder or Path(folder)
        )
    text = table(values)
    print(text)
    if arguments.keep:
        write_json("own_detector", COMMAND, values)
        write_markdown("own_detector", COMMAND, text)


def measured(archive: Path, start: str, epochs: int, threads: int, folder: Path) -> dict[str, Any]:
    """Pictures, seconds and precision in percent of a third that no step of the training saw."""
    folder.mkdir(exist_ok=True)
    with np.load(archive) as whole:
        arrays = dict(whole)
    count = len(arrays["offsets"]) - 1
    third = np.isin(np.arange(count), np.random.default_rng(SEED).permutation(count)[: round(count / 3)])
    own, held_out = folder / "own.npz", folder / "third.npz"
    np.savez(own, **part(arrays, ~third))
    np.savez(held_out, **part(arrays, third))
    floats, model, steps = folder / "own-float.safetensors", folder / "own.safetensors", folder / "run"
    training = ["--task", "detection", "--data", own, "--start", start, "--epochs", epochs, "--quantized-epochs", 0]
    seconds, _ = edgemeta(["train", *training, "--threads", threads, "--folder", steps, "--out", floats])
    test = ["--calibrate", own, "--test", steps / "validation.npz"]
    quantizing, _ = edgemeta(["quantize", floats, *test, "--out", model])
    values = {"start": Path(start).stem, "epochs": epochs, "threads": threads, "pictures": int((~third).sum())}
    values |= {"held_out": int(third.sum()), "train_s": round(seconds, 1), "quantize_s": round(quantizing, 1)}
    for name, file in (("int8", model), ("float", floats)):
        values[name] = edgemeta(["eval", file, "--data", held_out])[1]
    return values


def part(arrays: Mapping[str, NDArray[Any]], chosen: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """The archive of the chosen pictures, bool [pictures], in the form of docs/detection.md."""
    offsets, numbers = arrays["offsets"].astype(np.int64), np.flatnonzero(chosen)
    files = [arrays["jpeg"][offsets[number] : offsets[number + 1]] for number in numbers]
    boxes = chosen[arrays["box_image"]]
    result = {name: arrays[name][boxes] for name in _OF_BOXES} | {name: arrays[name][chosen] for name in _OF_PICTURES}
    result |= {"jpeg": np.concatenate(files), "offsets": np.cumsum([0, *(len(each) for each in files)])}
    result["box_image"] = np.searchsorted(numbers, arrays["box_image"][boxes])
    return result | {name: arrays[name] for name in ("labels", "sources")}


def edgemeta(arguments: Sequence[object]) -> tuple[float, dict[str, Any]]:
    """Seconds that a command took, and what it says in JSON."""
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    command = [str(Path(sys.executable).with_name("edgemeta")), *map(str, arguments), "--json"]
    began = perf_counter()
    done = run(command, check=True, stdout=PIPE, env=environment)
    return perf_counter() - began, json.loads(done.stdout)


def table(values: Mapping[str, Any]) -> str:
    """Markdown."""
    took = sum(values[f"{name}_s"] for name in ("train", "quantize")) / 60
    text = (
        f"{values['pictures']} pictures trained {values['epochs']} epochs from `{values['start']}` with "
        f"{values['threads']} thread(s); {took:.1f} minutes with quantizing (goal {MINUTES:g} on two cores). On the "
        f"{values['held_out']} pictures held out:\n\n| average precision at one half, % | boxes | int8 | float |\n"
        "|---|---|---|---|\n"
    )
    rows = [f"| mean (goal {GOAL:g}) | | {values['int8']['map50']:.1f} | {values['float']['map50']:.1f} |"]
    for label, found in values["int8"]["labels"].items():
        floats = values["float"]["labels"][label]
        rows.append(f"| {label} | {found['boxes']} | {found['ap50']:.1f} | {floats['ap50']:.1f} |")
    return text + "\n".join(rows)


if __name__ == "__main__":
    main()
